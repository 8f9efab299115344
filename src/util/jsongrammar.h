/*
 * jsongrammar.h - is a text JSON as RFC 8259 has it? json-c takes more than that (comments, single quotes, NaN, control
 * characters), and its strict mode differs between versions: 0.18 refuses every byte above 0x7f and every large number.
 */
#ifndef HUTCH_JSONGRAMMAR_H
#define HUTCH_JSONGRAMMAR_H

#include <stddef.h>

/* A few bytes of text make a value of up to 800 bytes in memory (an empty object), so the length of a text bounds nothing. With these
 * one document takes 40 MB at worst. */
#define JSON_VALUES_MAX 250000
#define JSON_NESTED_MAX 25000        /* objects and arrays */

/* NULL, or what is wrong. More values than that are wrong, too. Nesting beyond depth is wrong. UTF-8 is not looked at, nor which characters \u names. */
const char *json_grammar(const char *text, size_t n, int depth);

#endif
