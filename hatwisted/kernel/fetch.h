/* Asks for a line of memory that will be read soon. It may lie anywhere: nothing is read. */

#ifndef HATWISTED_FETCH_H
#define HATWISTED_FETCH_H

#if defined(__GNUC__) || defined(__clang__)
static inline void fetch(const char *at) { __builtin_prefetch(at); }
#else
static inline void fetch(const char *at) { (void)at; }
#endif

#endif
