package config

import (
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/yamltext"
)

// entry is one key of the file, bound to a field of a Config. It is a single
// value (show), a list with an entry on each line (items), or a section (inner).
type entry struct {
	key, doc string
	set      yamltext.Setter
	show     func() string
	items    func() []string
	inner    []entry
}

// single binds a value that is read from text and written as show says.
func single[T any](key string, v *T, parse func(string) (T, error), show func(T) string, doc string) entry {
	return entry{key: key, doc: doc, set: yamltext.Value(v, parse), show: func() string { return show(*v) }}
}

func section(key, doc string, inner ...entry) entry {
	return entry{key: key, doc: doc, inner: inner}
}

// longest is the longest span that can be written.
const longest = 100 * 365 * day

func span(key string, v *time.Duration, least time.Duration, doc string) entry {
	return single(key, v, func(s string) (time.Duration, error) {
		d, err := unit.ParseSeconds(s)
		if err == nil && (d < least || d > longest) {
			err = fmt.Errorf("%q: write a duration from %s to %s", s, formatSpan(least), formatSpan(longest))
		}
		return d, err
	}, formatSpan, doc)
}

// formatSpan writes a duration without needless zeros, so that it is read as the
// same one.
func formatSpan(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func size(key string, v *unit.Bytes, least, most unit.Bytes, doc string) entry {
	return single(key, v, func(s string) (unit.Bytes, error) {
		b, err := unit.ParseBytes(s)
		if err == nil && (b < least || b > most) {
			err = fmt.Errorf("%q: write an amount from %s to %s", s, yamltext.FormatBytes(least), yamltext.FormatBytes(most))
		}
		return b, err
	}, yamltext.FormatBytes, doc)
}

// largest is more memory and more disk than any machine has.
const largest = 1024 * unit.TiB

func cores(key string, v *unit.Milli, doc string) entry {
	return single(key, v, func(s string) (unit.Milli, error) {
		m, err := unit.ParseMilli(s)
		if err != nil || m > 1_000_000*unit.One {
			return 0, fmt.Errorf("%q: write a number of CPU cores such as 2 or 0.5", s)
		}
		return m, nil
	}, unit.Milli.String, doc)
}

func count(key string, v *int, least, most int, doc string) entry {
	return entry{key: key, doc: doc, set: yamltext.Int(v, least, most), show: func() string { return strconv.Itoa(*v) }}
}

func factor(key string, v *float64, least, most float64, doc string) entry {
	return single(key, v, func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= least && f <= most) {
			return 0, fmt.Errorf("%q: write a number from %v to %v", s, least, most)
		}
		return f, nil
	}, func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }, doc)
}

func flag(key string, v *bool, doc string) entry {
	return entry{key: key, doc: doc, set: yamltext.Bool(v), show: func() string { return strconv.FormatBool(*v) }}
}

// oneOf binds a value that has names, in the order of its values.
func oneOf[T interface {
	~uint8
	fmt.Stringer
}](key string, v *T, most T, doc string) entry {
	var names []string
	for x := range most + 1 {
		names = append(names, x.String())
	}
	return entry{key: key, doc: doc, set: yamltext.Choice(v, names...), show: func() string { return (*v).String() }}
}

func level(key string, v *slog.Level, doc string) entry {
	return single(key, v, func(s string) (slog.Level, error) {
		for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			if s == strings.ToLower(l.String()) {
				return l, nil
			}
		}
		return 0, fmt.Errorf("%q: write one of debug, info, warn, error", s)
	}, func(l slog.Level) string { return strings.ToLower(l.String()) }, doc)
}

// absolute binds a path; empty stands for none where that is allowed.
func absolute(key string, v *string, mayLack bool, doc string) entry {
	return single(key, v, func(s string) (string, error) {
		if s == "" && mayLack {
			return "", nil
		}
		return parsePath(s)
	}, yamltext.Quote, doc)
}

func parsePath(s string) (string, error) {
	if !filepath.IsAbs(s) || !printable(s) {
		return "", fmt.Errorf("%q: write an absolute path", s)
	}
	return filepath.Clean(s), nil
}

// maxSocket is the longest path of a socket that Linux takes.
const maxSocket = 107

func parseSocket(s string) (string, error) {
	path, err := parsePath(s)
	if len(path) > maxSocket {
		err = fmt.Errorf("%q: write a path of at most %d bytes", s, maxSocket)
	}
	return path, err
}

// printable tells whether a text can be written in the file and read again.
func printable(s string) bool {
	return len(s) <= 4096 && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0
}

// goodName tells whether a text can be the name of a tenant, a user or a token.
func goodName(s string) bool {
	return s != "" && len(s) <= 200 && s == strings.TrimSpace(s) && printable(s)
}

// name binds the name of something.
func name(v *string) yamltext.Setter { return yamltext.Value(v, parseName) }

// names adds to a list of names.
func names(v *[]string, what string) yamltext.Setter {
	return yamltext.List(what, func(n ast.Node) error {
		var s string
		err := name(&s)(n)
		*v = append(*v, s)
		return err
	})
}

func parseName(s string) (string, error) {
	if !goodName(s) {
		return "", fmt.Errorf("%q is not a name: write up to 200 printable signs", s)
	}
	return s, nil
}

// texts binds a list of what has a notation of its own.
func texts[T fmt.Stringer](key string, v *[]T, parse func(string) (T, error), doc string) entry {
	set := func(n ast.Node) error {
		*v = nil
		return yamltext.List(key, func(n ast.Node) error {
			var one T
			err := yamltext.Value(&one, parse)(n)
			*v = append(*v, one)
			return err
		})(n)
	}
	return entry{key: key, doc: doc, set: set, show: func() string {
		var all []string
		for _, one := range *v {
			all = append(all, one.String())
		}
		return flow(all)
	}}
}

// flow writes a list on one line.
func flow(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = yamltext.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// parseParent reads the cgroup below which those of jobs are made.
func parseParent(s string) (string, error) {
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" || !printable(s) {
		return "", fmt.Errorf("%q: write the path of a cgroup inside its hierarchy, such as /norn", s)
	}
	return s, nil
}

// read takes devices: auto, a number, none, or a list of GPUs.
func (d *Devices) read(n ast.Node) error {
	*d = Devices{}
	if _, ok := n.(*ast.SequenceNode); ok {
		if err := names(&d.Only, "GPUs")(n); err != nil {
			return err
		}
		if len(d.Only) == 0 {
			return yamltext.Fault(n, "the list names no GPU; write none where jobs shall get none, auto for all of them")
		}
		return nil
	}
	if m, ok := n.(*ast.MappingNode); ok {
		return d.readTypes(m)
	}
	s, err := yamltext.Scalar(n)
	if err != nil {
		return err
	}
	switch s {
	case "auto":
		d.Auto = true
		return nil
	case "none":
		return nil
	}
	slots, err := parseSlots(s)
	if err != nil {
		return yamltext.Fault(n, "%q: write auto, none, a number of slots up to %d, or a list of GPUs such as [0, 1]", s, maxSlots)
	}
	d.Slots = OfSlots(slots)
	return nil
}

// readTypes reads the numbers of slots of several types.
func (d *Devices) readTypes(n *ast.MappingNode) error {
	for _, v := range n.Values {
		typ, err := yamltext.Scalar(v.Key)
		if err != nil {
			return err
		}
		s, err := yamltext.Scalar(v.Value)
		if err != nil {
			return err
		}
		count, err := parseSlots(s)
		switch {
		case err != nil || count == 0 || typ == "":
			return yamltext.Fault(v, "%q: %q: write a type and a number of slots from 1 to %d", typ, s, maxSlots)
		case slices.ContainsFunc(d.Slots, func(o Slots) bool { return o.Type == typ }):
			return yamltext.Fault(v, "the slots of type %q are given twice", typ)
		}
		d.Slots = append(d.Slots, Slots{Type: typ, Count: count})
	}
	if len(d.Slots) == 0 {
		return yamltext.Fault(n, "no slots are named; write none where there shall be none")
	}
	return nil
}

func parseSlots(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < 0 || n > maxSlots) {
		err = strconv.ErrRange
	}
	return n, err
}

// OfSlots is so many slots of the one type that slots have where nothing is said.
func OfSlots(n int) []Slots {
	if n == 0 {
		return nil
	}
	return []Slots{{Type: slotType, Count: n}}
}

// maxSlots is how many devices a node can tell apart.
const maxSlots = 64

// String writes the devices as the file has them.
func (d Devices) String() string {
	switch {
	case d.Auto:
		return "auto"
	case len(d.Only) > 0:
		return flow(d.Only)
	case len(d.Slots) == 0:
		return "none"
	case len(d.Slots) == 1 && d.Slots[0].Type == slotType:
		return strconv.Itoa(d.Slots[0].Count)
	}
	var parts []string
	for _, s := range d.Slots {
		parts = append(parts, yamltext.Quote(s.Type)+": "+strconv.Itoa(s.Count))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
