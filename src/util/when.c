#include "hutch/when.h"

#include <stdbool.h>
#include <time.h>

static int64_t clock_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

int64_t wall_us(void)
{
	return clock_us(CLOCK_REALTIME);
}

int64_t boot_us(void)
{
	return clock_us(CLOCK_BOOTTIME);
}

static char *put_two(char *to, unsigned v)
{
	to[0] = (char)('0' + v / 10);
	to[1] = (char)('0' + v % 10);
	return to + 2;
}

/* Date of the day that many days after 1970-01-01 (proleptic Gregorian calendar). Counted from 0000-03-01, so that the day
 * that a leap year adds is the last of its year; 400 years have 146097 days. */
static void civil_date(int64_t days, unsigned *year, unsigned *month, unsigned *day)
{
	int64_t z = days + 719468, era = z / 146097;
	unsigned doe = (unsigned)(z - era * 146097);
	unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	unsigned m = (5 * doy + 2) / 153;              /* 0 = March; five months have 153 days */

	*day = doy - (153 * m + 2) / 5 + 1;
	*month = m < 10 ? m + 3 : m - 9;
	*year = yoe + (unsigned)era * 400 + (*month <= 2);
}

/* No gmtime_r and no printf: lists hold hundreds of times, and gmtime_r takes a lock. */
void when_format(int64_t us, char out[WHEN_LEN])
{
	static const int64_t first = -62135596800LL * US_PER_S, last = 253402300800LL * US_PER_S - 1;  /* years 1 to 9999 */
	unsigned year, month, day, second, part;
	int64_t days;
	char *p = out;

	us = us < first ? first : us > last ? last : us;
	us -= first;                                   /* not negative, so that division rounds down */
	days = us / (86400 * US_PER_S);
	second = (unsigned)(us / US_PER_S % 86400);
	part = (unsigned)(us % US_PER_S);
	civil_date(days - 719162, &year, &month, &day);
	p = put_two(put_two(p, year / 100), year % 100);
	*p++ = '-';
	p = put_two(p, month);
	*p++ = '-';
	p = put_two(p, day);
	*p++ = 'T';
	p = put_two(p, second / 3600);
	*p++ = ':';
	p = put_two(p, second / 60 % 60);
	*p++ = ':';
	p = put_two(p, second % 60);
	*p++ = '.';
	p = put_two(put_two(put_two(p, part / 10000), part / 100 % 100), part % 100);
	*p++ = 'Z';
	*p = '\0';
}

/* count digits at *p as a number in [min, max]; moves *p. */
static bool take_digits(const char **p, const char *end, int count, int min, int max, int *out)
{
	int v = 0;

	for (int i = 0; i < count; i++, (*p)++) {
		if (*p == end || **p < '0' || **p > '9')
			return false;
		v = v * 10 + (**p - '0');
	}
	*out = v;
	return v >= min && v <= max;
}

static bool take_char(const char **p, const char *end, const char *any)
{
	for (; *p < end && *any != '\0'; any++) {
		if (**p == *any) {
			(*p)++;
			return true;
		}
	}
	return false;
}

int when_parse(const char *s, size_t n, int64_t *us)
{
	static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	const char *p = s, *end = s + n;
	int year, month, day, hour, minute, second, off_h = 0, off_m = 0;
	int64_t fraction = 0, offset = 0;
	struct tm t = { 0 };
	char sign;

	if (!take_digits(&p, end, 4, 1, 9999, &year) || !take_char(&p, end, "-") ||
	    !take_digits(&p, end, 2, 1, 12, &month) || !take_char(&p, end, "-") ||
	    !take_digits(&p, end, 2, 1, days[month - 1], &day) || !take_char(&p, end, "Tt") ||
	    !take_digits(&p, end, 2, 0, 23, &hour) || !take_char(&p, end, ":") ||
	    !take_digits(&p, end, 2, 0, 59, &minute) || !take_char(&p, end, ":") ||
	    !take_digits(&p, end, 2, 0, 60, &second))
		return -1;
	if (take_char(&p, end, ".")) {
		int64_t unit = 100000;

		if (p == end || *p < '0' || *p > '9')
			return -1;
		for (; p < end && *p >= '0' && *p <= '9'; p++, unit /= 10)
			fraction += unit * (*p - '0');
	}
	if (p == end)
		return -1;
	sign = *p;
	if (take_char(&p, end, "+-")) {
		if (!take_digits(&p, end, 2, 0, 23, &off_h) || !take_char(&p, end, ":") ||
		    !take_digits(&p, end, 2, 0, 59, &off_m))
			return -1;
		offset = (off_h * 3600 + off_m * 60) * (sign == '-' ? -1 : 1);
	} else if (!take_char(&p, end, "Zz")) {
		return -1;
	}
	if (p != end)
		return -1;
	t.tm_year = year - 1900;
	t.tm_mon = month - 1;
	t.tm_mday = day;
	t.tm_hour = hour;
	t.tm_min = minute;
	t.tm_sec = second;
	*us = ((int64_t)timegm(&t) - offset) * US_PER_S + fraction;
	return 0;
}
