package job

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Shape is a model as far as its memory and its arithmetic are concerned: the shapes of
// its layers, as its user tells them. Numbers are 4-byte floats, ids 4-byte integers.
type Shape struct {
	Tables    []Table
	Layers    []Layers
	Optimizer Optimizer
	Sparse    bool       // only rows that were looked up have gradients
	Params    int64      // numbers of parameters beside tables and layers
	Kept      int64      // numbers kept for each sample beside the outputs of tables and layers
	Once      int64      // numbers kept once
	Workspace unit.Bytes // of libraries, such as that for softmax
	Context   unit.Bytes // of CUDA and the framework; 0: not told
}

// Table is an embedding table: Rows of Dim numbers, of which each sample looks some up.
type Table struct {
	Name               string
	Rows, Dim, Lookups int64
}

// Layers are linear layers with biases, one behind the other: from each width to the
// next.
type Layers struct {
	Name   string
	Widths []int64
}

// Optimizer is what updates the parameters of a model.
type Optimizer uint8

// The optimizers. They keep 0, 1, 1 and 2 numbers for each parameter.
const (
	SGD Optimizer = iota
	Momentum
	Adagrad
	Adam
)

var optimizers = []string{"sgd", "momentum", "adagrad", "adam"}

func (o Optimizer) String() string { return optimizers[o] }

// States is how many numbers the optimizer keeps for each parameter.
func (o Optimizer) States() int { return [...]int{0, 1, 1, 2}[o] }

// Limits of a shape: parts of each kind, widths of one stack of layers, and any number.
const (
	mostParts   = 256
	mostNumbers = 1 << 50
)

// ParseShape reads a shape. It consists of statements, apart by semicolons or ends of
// lines:
//
//	table users 1000001x9*26    rows x numbers of each * rows that a sample looks up (else 1)
//	layers deep 247x512x256x1   widths of linear layers, one behind the other
//	optimizer adam              sgd, momentum, adagrad or adam; must be there
//	sparse                      only rows that were looked up have gradients
//	params 247                  numbers of parameters beside those
//	kept 2223                   numbers kept for each sample beside outputs of tables and layers
//	once 466                    numbers kept once
//	workspace 80MiB             of libraries beside those of linear layers
//	context 735MiB              of CUDA and the framework
//
// Names of tables and layers may be left out. An error names the part that it is about.
func ParseShape(text string) (*Shape, error) {
	s := &Shape{}
	told := map[string]bool{}
	for statement := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(statement)
		if len(words) == 0 {
			continue
		}
		what, rest := words[0], words[1:]
		var err error
		switch what {
		case "table":
			err = s.table(rest)
		case "layers":
			err = s.layers(rest)
		default:
			if err = s.property(what, rest); err == nil && told[what] {
				err = fmt.Errorf("%s is there twice", what)
			}
			told[what] = true
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case len(s.Tables)+len(s.Layers) == 0:
		return nil, errors.New("neither tables nor layers: write as in table users 1000000x16*3; layers deep 48x512x1; optimizer adam")
	case !told["optimizer"]:
		return nil, fmt.Errorf("no optimizer: write optimizer %s", strings.Join(optimizers, ", "))
	}
	return s, s.Check()
}

// table reads [NAME] ROWSxDIM[*LOOKUPS].
func (s *Shape) table(words []string) error {
	name, size, err := part("table", len(s.Tables), words)
	if err != nil {
		return err
	}
	of, lookups, several := strings.Cut(size, "*")
	widths, ok := product(of)
	t := Table{Name: name, Lookups: 1}
	if several {
		more, fine := product(lookups)
		if ok = ok && fine && len(more) == 1; ok {
			t.Lookups = more[0]
		}
	}
	if !ok || len(widths) != 2 {
		return fmt.Errorf("%s: %q: write rows x numbers of each, and * rows that a sample looks up, as in 1000000x16*3", called("table", name, len(s.Tables)), size)
	}
	t.Rows, t.Dim = widths[0], widths[1]
	s.Tables = append(s.Tables, t)
	return nil
}

// layers reads [NAME] WIDTHxWIDTH...
func (s *Shape) layers(words []string) error {
	name, size, err := part("layers", len(s.Layers), words)
	if err != nil {
		return err
	}
	widths, ok := product(size)
	if !ok || len(widths) < 2 {
		return fmt.Errorf("%s: %q: write the widths of linear layers one behind the other, as in 13x512x256", called("layers", name, len(s.Layers)), size)
	}
	s.Layers = append(s.Layers, Layers{name, widths})
	return nil
}

// part is the name and the size of a part of a shape.
func part(what string, n int, words []string) (name, size string, err error) {
	switch {
	case n == mostParts:
		return "", "", fmt.Errorf("more than %d statements %s", mostParts, what)
	case len(words) == 1:
		return "", words[0], nil
	case len(words) == 2 && strings.IndexFunc(words[0], notInName) < 0:
		return words[0], words[1], nil
	}
	return "", "", fmt.Errorf("%s: %q: write a name of letters, digits and ._-, or none, and the size", called(what, "", n), strings.Join(words, " "))
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
}

// product reads numbers of 1 or more with x between them.
func product(text string) (out []int64, ok bool) {
	for n := range strings.SplitSeq(text, "x") {
		v, ok := count(n)
		if !ok || v == 0 || len(out) == mostParts {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// count reads a whole number.
func count(text string) (int64, bool) {
	v, err := strconv.ParseUint(text, 10, 63)
	return int64(v), err == nil && v <= mostNumbers
}

// called is what errors call a part: by its name or else its number.
func called(what, name string, at int) string {
	if name != "" {
		return what + " " + name
	}
	return what + " " + strconv.Itoa(at+1)
}

// property reads what is there once.
func (s *Shape) property(what string, words []string) error {
	if what == "sparse" && len(words) == 0 {
		s.Sparse = true
		return nil
	}
	numbers := map[string]*int64{"params": &s.Params, "kept": &s.Kept, "once": &s.Once}
	sizes := map[string]*unit.Bytes{"workspace": &s.Workspace, "context": &s.Context}
	switch n, size := numbers[what], sizes[what]; {
	case len(words) != 1 && (n != nil || size != nil || what == "optimizer"):
		return fmt.Errorf("%s: write one value behind it", what)
	case n != nil:
		v, ok := count(words[0])
		if *n = v; !ok {
			return fmt.Errorf("%s: %q is not a whole number, 2^50 at most", what, words[0])
		}
		return nil
	case size != nil:
		v, err := unit.ParseBytes(words[0])
		if *size = v; err != nil || v < 0 || v > mostNumbers {
			return fmt.Errorf("%s: %q is not an amount of memory, 1 PiB at most", what, words[0])
		}
		return nil
	case what == "optimizer":
		at := slices.Index(optimizers, words[0])
		if at < 0 {
			return fmt.Errorf("optimizer: %q: write %s", words[0], strings.Join(optimizers, ", "))
		}
		s.Optimizer = Optimizer(at)
		return nil
	}
	return fmt.Errorf("%q: write table, layers, optimizer, sparse, params, kept, once, workspace or context", what)
}

// Check says what is wrong with a shape, or nil. No part, and not all of them
// together, may have more than 2^50 numbers.
func (s *Shape) Check() error {
	sum := float64(s.Params) + float64(s.Kept) + float64(s.Once)
	for i, t := range s.Tables {
		if sum += float64(t.Rows)*float64(t.Dim) + float64(t.Dim)*(float64(t.Dim)+float64(t.Lookups)); sum > mostNumbers {
			return fmt.Errorf("%s: with it the model has more than 2^50 numbers", called("table", t.Name, i))
		}
	}
	for i, l := range s.Layers {
		for at := range l.Widths[1:] {
			if sum += float64(l.Widths[at]+1) * float64(l.Widths[at+1]); sum > mostNumbers {
				return fmt.Errorf("%s: with it the model has more than 2^50 numbers", called("layers", l.Name, i))
			}
		}
	}
	return nil
}

// String writes a shape as ParseShape reads it.
func (s *Shape) String() string {
	var parts []string
	add := func(words ...string) {
		parts = append(parts, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
	}
	for _, t := range s.Tables {
		size := fmt.Sprintf("%dx%d", t.Rows, t.Dim)
		if t.Lookups != 1 {
			size += fmt.Sprintf("*%d", t.Lookups)
		}
		add("table", t.Name, size)
	}
	for _, l := range s.Layers {
		add("layers", l.Name, strings.Trim(strings.ReplaceAll(fmt.Sprint(l.Widths), " ", "x"), "[]"))
	}
	add("optimizer", s.Optimizer.String())
	if s.Sparse {
		add("sparse")
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"params", s.Params}, {"kept", s.Kept}, {"once", s.Once}, {"workspace", int64(s.Workspace)}, {"context", int64(s.Context)}} {
		if n.value != 0 {
			add(n.name, strconv.FormatInt(n.value, 10))
		}
	}
	return strings.Join(parts, "; ")
}
