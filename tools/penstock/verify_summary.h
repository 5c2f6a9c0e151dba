/* verify_summary.h - joins reports of `penstock verify --part I/N --json` into one. */
#ifndef PENSTOCK_VERIFY_SUMMARY_H
#define PENSTOCK_VERIFY_SUMMARY_H

#include "cli.h"

/* Prints the joined report of the files, findings first, as text or JSON. Returns CLI_OK if every
 * part of one data set is there and had no finding. CLI_FAILED: a part is missing or did not end,
 * there are findings, or the reports do not belong together. */
int verify_summary(struct cli *cli, const char *const *files, int n_files);

/* Prints a finding: as a line, or as an element of the list `json`. name: name of the sample; "" if
 * there is none. */
void verify_print_finding(const struct cli *cli, struct cli_json *json, const char *name,
                          const struct pst_error *finding);

#endif
