// Package param gives the settings of policies and formats names, units and
// words, so that a user can set them, see their defaults, and is told when she
// mistypes one.
//
// Nouns: a Param is one setting, bound to a field of a Config; a Set is all
// settings of one Config. The default is what the field holds when it is bound.
package param

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Param is one setting.
type Param struct {
	Name    string
	Unit    string // what a number counts; empty where it has none
	Doc     string // one line
	Default string // as a user would write it

	Kind        Kind
	Least, Most float64  // of an Int or a Float
	Options     []string // of a Choice

	set func(string) error
	get func() string
}

// Kind is what the value of a setting is.
type Kind uint8

// The kinds of values.
const (
	IsText     Kind = iota // or words
	IsBool                 // true or false
	IsInt                  // a whole number from Least to Most
	IsFloat                // a number from Least to Most
	IsFloats               // numbers
	IsDuration             // not negative, or never
	IsChoice               // one of Options
)

// of tells what the value of a setting is.
func (p Param) of(k Kind) Param {
	p.Kind = k
	return p
}

// from tells what the value of a setting is and between which numbers it lies.
func (p Param) from(k Kind, least, most float64) Param {
	p.Kind, p.Least, p.Most = k, least, most
	return p
}

// Get is the value as a user would write it.
func (p Param) Get() string { return p.get() }

// Set is all settings of one Config.
type Set []Param

// Set changes a setting. An unknown name is an error that lists the known
// ones, a value that cannot be read one that says what was expected.
func (s Set) Set(name, value string) error {
	for _, p := range s {
		if p.Name == name {
			if err := p.set(value); err != nil {
				return fmt.Errorf("%s=%s: %w", name, value, err)
			}
			return nil
		}
	}
	return fmt.Errorf("unknown parameter %q; known are: %s%s", name, strings.Join(s.Names(), ", "), Near(name, s.Names()))
}

// Names are the names of the settings, sorted.
func (s Set) Names() []string {
	names := make([]string, len(s))
	for i, p := range s {
		names[i] = p.Name
	}
	sort.Strings(names)
	return names
}

// Changed are the settings that differ from their defaults, as name=value.
func (s Set) Changed() []string {
	var out []string
	for _, p := range s {
		if v := p.Get(); v != p.Default {
			out = append(out, p.Name+"="+v)
		}
	}
	return out
}

func bind(name, unit, doc string, get func() string, set func(string) error) Param {
	return Param{Name: name, Unit: unit, Doc: doc, Default: get(), get: get, set: set}
}

// Bool binds a yes or no.
func Bool(name string, v *bool, doc string) Param {
	return bind(name, "", doc, func() string { return strconv.FormatBool(*v) }, func(s string) error {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("write true or false")
		}
		*v = b
		return nil
	}).of(IsBool)
}

// Int binds a whole number between least and most.
func Int(name string, v *int, least, most int, unit, doc string) Param {
	return bind(name, unit, doc, func() string { return strconv.Itoa(*v) }, func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("write a whole number from %d to %d", least, most)
		}
		*v = n
		return nil
	}).from(IsInt, float64(least), float64(most))
}

// Float binds a number between least and most.
func Float(name string, v *float64, least, most float64, unit, doc string) Param {
	return bind(name, unit, doc, func() string { return formatFloat(*v) }, func(s string) error {
		f, err := parseFloat(s)
		if err != nil || f < least || f > most {
			return fmt.Errorf("write a number from %s to %s", formatFloat(least), formatFloat(most))
		}
		*v = f
		return nil
	}).from(IsFloat, least, most)
}

// Floats binds a list of numbers, written with commas.
func Floats(name string, v *[]float64, unit, doc string) Param {
	get := func() string {
		parts := make([]string, len(*v))
		for i, f := range *v {
			parts[i] = formatFloat(f)
		}
		return strings.Join(parts, ",")
	}
	return bind(name, unit, doc, get, func(s string) error {
		var out []float64
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.Trim(part, " []"); part == "" {
				continue
			}
			f, err := parseFloat(part)
			if err != nil {
				return fmt.Errorf("write numbers with commas between them")
			}
			out = append(out, f)
		}
		*v = out
		return nil
	}).of(IsFloats)
}

// Duration binds a time that is not negative.
func Duration(name string, v *time.Duration, doc string) Param {
	get := func() string {
		if *v == unit.Never {
			return "never"
		}
		return v.String()
	}
	return bind(name, "duration", doc, get, func(s string) error {
		if s == "never" {
			*v = unit.Never
			return nil
		}
		d, err := unit.ParseSeconds(s)
		if err != nil || d < 0 {
			return fmt.Errorf("write seconds, a duration like 90s, 1h30m or 2d, or never")
		}
		*v = d
		return nil
	}).of(IsDuration)
}

// Option is one of the values that a Choice allows.
type Option[T any] struct {
	Name  string
	Value T
}

// Choice binds one of several values by name. The field must hold one of them.
func Choice[T comparable](name string, v *T, options []Option[T], doc string) Param {
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.Name
	}
	get := func() string {
		for _, o := range options {
			if o.Value == *v {
				return o.Name
			}
		}
		return ""
	}
	p := bind(name, "", doc, get, func(s string) error {
		for _, o := range options {
			if o.Name == s {
				*v = o.Value
				return nil
			}
		}
		return fmt.Errorf("write one of %s", strings.Join(names, ", "))
	})
	p.Unit, p.Kind, p.Options = strings.Join(names, "|"), IsChoice, names
	return p
}

func formatFloat(f float64) string {
	if math.IsInf(f, 1) {
		return "inf"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func parseFloat(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err == nil && math.IsNaN(f) {
		err = fmt.Errorf("not a number")
	}
	return f, err
}

// Text binds a text.
func Text(name string, v *string, doc string) Param {
	return bind(name, "", doc, func() string { return *v }, func(s string) error {
		*v = s
		return nil
	})
}

// Words binds a list of words, written with commas.
func Words(name string, v *[]string, unit, doc string) Param {
	return bind(name, unit, doc, func() string { return strings.Join(*v, ",") }, func(s string) error {
		*v = (*v)[:0:0]
		for word := range strings.SplitSeq(s, ",") {
			if word = strings.TrimSpace(word); word != "" {
				*v = append(*v, word)
			}
		}
		return nil
	})
}
