/* verify_summary.h - reports of `penstock verify --part I/N --json`, and what all of them say
 * together. */
#ifndef PENSTOCK_VERIFY_SUMMARY_H
#define PENSTOCK_VERIFY_SUMMARY_H

#include "cli.h"

/* Prints what the reports in the files say together, findings first, as text or JSON. Returns
 * CLI_OK if each part of one data set is there and none found anything. CLI_FAILED: a part is
 * missing or did not end, there are findings, or the reports do not belong together. */
int verify_summary(struct cli *cli, const char *const *files, int n_files);

/* Prints a finding: as a line, or as an element of the list `json`. name: of the sample; "": there
 * is none. */
void verify_print_finding(const struct cli *cli, struct cli_json *json, const char *name,
                          const struct pst_error *finding);

#endif
