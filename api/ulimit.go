package api

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ULimitNames are the limits on a process that a job takes over from its submitter, by
// the names of prlimit(1): sizes in bytes, cpu in seconds.
func ULimitNames() []string {
	return []string{"as", "core", "cpu", "data", "fsize", "nofile", "nproc", "stack"}
}

// Unlimited is a limit on a process that is none.
const Unlimited = math.MaxUint64

// ParseULimit reads a limit, SOFT or SOFT:HARD, each a number or unlimited.
func ParseULimit(text string) (soft, hard uint64, err error) {
	first, second, both := strings.Cut(text, ":")
	if !both {
		second = first
	}
	if soft, err = parseLimit(first); err == nil {
		hard, err = parseLimit(second)
	}
	if err != nil || soft > hard {
		return 0, 0, fmt.Errorf("%q is no limit: write a number or unlimited, or two of them as in 1024:4096, the larger one behind", text)
	}
	return soft, hard, nil
}

func parseLimit(text string) (uint64, error) {
	if text == "unlimited" {
		return Unlimited, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

// FormatULimit writes a limit as ParseULimit reads it.
func FormatULimit(soft, hard uint64) string {
	one := func(v uint64) string {
		if v == Unlimited {
			return "unlimited"
		}
		return strconv.FormatUint(v, 10)
	}
	if soft == hard {
		return one(soft)
	}
	return one(soft) + ":" + one(hard)
}

// CheckULimits refuses limits that there are not.
func CheckULimits(limits map[string]string) error {
	for name, text := range limits {
		if !slices.Contains(ULimitNames(), name) {
			return fmt.Errorf("no limit %q of a process: write one of %s", name, strings.Join(ULimitNames(), ", "))
		}
		if _, _, err := ParseULimit(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// ParseUmask reads a mask of rights, in octal as in 027.
func ParseUmask(text string) (int, error) {
	mask, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mask > 0o777 {
		return 0, fmt.Errorf("%q is no mask of rights: write it in octal, as in 027", text)
	}
	return int(mask), nil
}
