package clusterimport

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// How Slurm writes things.

// pair is a name and a value, name=value.
type pair struct{ name, value string }

// pairsOf reads name=value, with spaces between them. A word without an equals sign belongs
// to the value before it, as in OS=Linux 5.14; a value may stand in double quotes.
func pairsOf(line string) []pair {
	var out []pair
	for _, word := range words(line) {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case ok && isName(name):
			out = append(out, pair{name, strings.Trim(value, `"`)})
		case len(out) > 0:
			out[len(out)-1].value += " " + strings.Trim(word, `"`)
		}
	}
	return out
}

// words divides a line at spaces outside of quotes.
func words(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\r')
	})
}

func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c|0x20 < 'a' || c|0x20 > 'z' {
			if c != '_' && (c < '0' || c > '9') {
				return false
			}
		}
	}
	return s != ""
}

// begins tells of texts whose first line that says something begins so, and which have a
// word that files of configuration do not have.
func begins(with, word string) func([]byte) bool {
	return func(text []byte) bool {
		return bytes.HasPrefix(firstLine(text), []byte(with)) && bytes.Contains(text, []byte(word))
	}
}

// firstLine is the first line that is no comment and not empty.
func firstLine(text []byte) []byte {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return line
		}
	}
	return nil
}

// hosts expands a list of names such as gpu[001-016,020],login1. It fails on a range that
// cannot be read, and on more than MaxNodes names.
func hosts(list string) ([]string, error) {
	var out []string
	for _, item := range outside(list, ',') {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		some, err := expand(item, clusterspec.MaxNodes-len(out))
		if err != nil {
			return nil, fmt.Errorf("hosts %q: %w", short(item), err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// outside divides a text at a separator that is in no brackets or parentheses.
func outside(text string, at byte) []string {
	var out []string
	depth, from := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case c == at && depth <= 0:
			out = append(out, text[from:i])
			from = i + 1
		}
	}
	return append(out, text[from:])
}

var errHosts = errors.New("write names such as gpu[001-016,020], at most 200000 of them")

// expand makes the names of one item, at most so many.
func expand(item string, most int) ([]string, error) {
	open := strings.IndexByte(item, '[')
	if open < 0 {
		if most < 1 || strings.ContainsAny(item, "]{}") {
			return nil, errHosts
		}
		return []string{item}, nil
	}
	inside, rest, closed := strings.Cut(item[open+1:], "]")
	if !closed {
		return nil, errHosts
	}
	tails, err := expand(rest, most)
	if rest == "" {
		tails, err = []string{""}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for part := range strings.SplitSeq(inside, ",") {
		first, last, ranges := strings.Cut(part, "-")
		if !ranges {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 32)
		b, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || b < a || (b-a+1)*uint64(len(tails))+uint64(len(out)) > uint64(max(0, most)) {
			return nil, errHosts
		}
		for n := a; n <= b; n++ {
			for _, tail := range tails {
				out = append(out, fmt.Sprintf("%s%0*d%s", item[:open], len(first), n, tail))
			}
		}
	}
	return out, nil
}

// gpusOf reads generic resources such as gpu:a100:8(S:0-1),gpu:1,nvme:2. It calls other with
// those that are no GPUs.
func gpusOf(text string, other func(name string)) ([]clusterspec.GPUs, error) {
	var out []clusterspec.GPUs
	for _, item := range outside(text, ',') {
		item, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(item), "gres:"), "(")
		parts := strings.Split(item, ":")
		switch parts[0] {
		case "", "null", "N/A", "none":
			continue
		case "gpu":
		default:
			other(parts[0])
			continue
		}
		g := clusterspec.GPUs{Type: clusterspec.UnnamedType, Count: 1}
		for _, p := range parts[1:] {
			if n, err := strconv.Atoi(p); err == nil {
				if n < 0 || n > clusterspec.MaxDevices {
					return nil, fmt.Errorf("%q: %d GPUs of a node", short(item), n)
				}
				g.Count = n
			} else if p != "" && p != "no_consume" {
				g.Type = p
			}
		}
		if g.Count > 0 {
			out = append(out, g)
		}
	}
	return out, nil
}

// megabytes reads an amount of memory: a number of MiB, perhaps with a plus sign behind it, or
// with a unit.
func megabytes(text string) (unit.Bytes, bool) {
	text = strings.TrimSuffix(text, "+")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < 1<<40 {
		return unit.Bytes(n) * unit.MiB, true
	}
	b, err := unit.ParseBytes(text)
	return b, err == nil
}

// cores reads a number of CPUs.
func cores(text string) (unit.Milli, bool) {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "+"), 10, 32)
	return unit.Milli(n) * unit.One, err == nil && n >= 0
}

// slurmTime reads minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes and days-hours:minutes:seconds.
func slurmTime(text string) (time.Duration, bool) {
	days, rest, dashed := strings.Cut(text, "-")
	if !dashed {
		days, rest = "0", text
	}
	parts := strings.Split(rest, ":")
	units := [...][]time.Duration{{time.Minute}, {time.Minute, time.Second}, {time.Hour, time.Minute, time.Second}}
	if dashed {
		units = [...][]time.Duration{{time.Hour}, {time.Hour, time.Minute}, {time.Hour, time.Minute, time.Second}}
	}
	if len(parts) > len(units) {
		return 0, false
	}
	d, err := strconv.ParseUint(days, 10, 15)
	sum := time.Duration(d) * 24 * time.Hour
	for i, p := range parts {
		n, wrong := strconv.ParseUint(p, 10, 31)
		if wrong != nil || n > 1e6 {
			return 0, false
		}
		sum += time.Duration(n) * units[len(parts)-1][i]
	}
	return sum, err == nil && sum <= 100*365*24*time.Hour && sum >= 0
}

// told tells whether a value says something.
func told(v string) bool {
	switch strings.ToUpper(v) {
	case "", "(NULL)", "N/A", "NONE", "UNLIMITED", "INFINITE", "-1":
		return false
	}
	return true
}

// short is a text that fits a message.
func short(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// atLine says in which line something is wrong.
func atLine(n int, err error) error { return fmt.Errorf("line %d: %w", n, err) }
