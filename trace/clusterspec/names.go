package clusterspec

import (
	"fmt"
	"strconv"
	"strings"
)

// pattern is a name of nodes: what stands before and after the counter.
type pattern struct {
	before, after string
	first         int
	width         int // leading zeros fill up to it; 0: none are written
	counts        bool
}

// parsePattern reads a name with at most one counter in braces.
func parsePattern(s string) (pattern, error) {
	before, rest, ok := strings.Cut(s, "{")
	if !ok {
		if strings.Contains(s, "}") {
			return pattern{}, fmt.Errorf("name %q has a } without a {", s)
		}
		return pattern{before: s}, nil
	}
	digits, after, ok := strings.Cut(rest, "}")
	if !ok || strings.ContainsAny(after, "{}") || len(digits) > 9 {
		return pattern{}, fmt.Errorf("name %q: write one counter in braces, such as {0} or {007}", s)
	}
	first, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return pattern{}, fmt.Errorf("name %q: %q is not a number to count from; write {0} or {007}", s, digits)
	}
	p := pattern{before: before, after: after, first: int(first), counts: true}
	if len(digits) > 1 && digits[0] == '0' {
		p.width = len(digits)
	}
	return p, nil
}

// name is the name of node i of a group.
func (p pattern) name(i int) string {
	if !p.counts {
		return p.before
	}
	digits := strconv.Itoa(p.first + i)
	if len(digits) < p.width {
		digits = strings.Repeat("0", p.width-len(digits)) + digits
	}
	return p.before + digits + p.after
}

// patternOf is the pattern that counts on from a name: its last digits become
// the counter. A name without digits at its end cannot be counted on from.
func patternOf(name string) (string, bool) {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' && len(name)-i < 9 {
		i--
	}
	if i == len(name) || strings.ContainsAny(name, "{}") {
		return "", false
	}
	return name[:i] + "{" + name[i:] + "}", true
}
