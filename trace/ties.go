package trace

import (
	"errors"
	"io"
	"slices"

	"github.com/norn-scheduler/norn/job"
)

// ByKey is the same jobs, with those of equal submission put in the order of
// their keys instead of the order of the input, so that how the rows of a file
// are arranged changes nothing. Numbers inside keys count as numbers: job9 comes
// before job10. Jobs of equal key and submission stay as they were.
func ByKey(src Source) Source { return &byKey{src: src} }

type byKey struct {
	src   Source
	group []Entry // of equal submission, sorted
	next  int     // in group
	ahead Entry   // the first entry behind the group
	has   bool    // ahead is there
	err   error
	n     job.ID
}

// Next implements Source.
func (s *byKey) Next(e *Entry) error {
	if s.next == len(s.group) {
		if err := s.fill(); err != nil {
			return err
		}
	}
	*e = s.group[s.next]
	s.group[s.next] = Entry{}
	s.next++
	e.Job.ID = s.n
	s.n++
	return nil
}

// fill reads the next group.
func (s *byKey) fill() error {
	s.group, s.next = s.group[:0], 0
	for s.err == nil {
		if s.has {
			if len(s.group) > 0 && s.ahead.Job.Submit != s.group[0].Job.Submit {
				break
			}
			s.group = append(s.group, s.ahead)
		}
		s.ahead = Entry{}
		s.err = s.src.Next(&s.ahead)
		s.has = s.err == nil
	}
	if len(s.group) == 0 {
		return s.err
	}
	if s.err != nil && !errors.Is(s.err, io.EOF) {
		return s.err
	}
	if len(s.group) > 1 {
		slices.SortStableFunc(s.group, func(a, b Entry) int { return CompareKeys(a.Job.Key, b.Job.Key) })
	}
	return nil
}

// CompareKeys compares names as a reader would: byte by byte, but numbers in
// them by their value.
func CompareKeys(a, b string) int {
	i, k := 0, 0
	for i < len(a) && k < len(b) {
		if !digit(a[i]) || !digit(b[k]) {
			if a[i] != b[k] {
				return int(a[i]) - int(b[k])
			}
			i, k = i+1, k+1
			continue
		}
		x, y := number(a[i:]), number(b[k:])
		i, k = i+len(x), k+len(y)
		x, y = trimZeros(x), trimZeros(y)
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if x != y {
			if x < y {
				return -1
			}
			return 1
		}
	}
	return (len(a) - i) - (len(b) - k)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// number is the digits that s begins with.
func number(s string) string {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return s[:n]
}

func trimZeros(s string) string {
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}
