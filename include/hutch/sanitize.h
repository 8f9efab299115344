/* sanitize.h - whether this is compiled with the address or thread sanitizer: gcc and clang say so in different ways. */
#ifndef HUTCH_SANITIZE_H
#define HUTCH_SANITIZE_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1                  /* frames are far bigger, and what is freed is kept */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
