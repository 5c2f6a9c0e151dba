/* test.h - included by every cmocka test. */
#ifndef PST_TEST_H
#define PST_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <penstock/status.h>

#include <stdio.h>

/* Sizes of the elements of pst_loader_options.fields, for use in an initialiser. */
#define TEST_ELEMENT_SIZES                                                                         \
    .field_nbytes = sizeof(struct pst_field_output), .op_nbytes = sizeof(struct pst_op)

/* Fails the test with the error's own text unless `call` is PST_OK. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        enum pst_status status_ = (call);                                                          \
        if (status_ != PST_OK) {                                                                   \
            char line_[2048];                                                                      \
            pst_error_format(&err, line_, sizeof line_);                                           \
            print_error("%s: %s\n", pst_status_name(status_), line_);                              \
        }                                                                                          \
        assert_int_equal(status_, PST_OK);                                                         \
    } while (0)
#endif
