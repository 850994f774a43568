package sweep

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/report"
)

// Words are what may stand in a file beside trace, policy, baseline and seed.
type Words struct {
	Sim       []string              // names of flags of norn sim, each of which is an axis
	Like      []string              // names of flags of norn trace generate
	Check     func(Setting) error   // says what is wrong with a value of such an axis
	CheckLike func([]Setting) error // the same of how a trace is made
}

// The most that a file may ask for: more is a slip of the pen.
const (
	mostSeeds  = 100_000
	mostTraces = 1000 // and policies
	mostRuns   = 1_000_000
)

// Load reads a plan from a file.
func Load(path string, words Words) (*Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Read(path, text, words)
}

// Read reads a plan from YAML. Wherever a list stands in place of one value, there are runs
// for each of its entries. Errors name file, line and column.
func Read(name string, text []byte, words Words) (*Plan, error) {
	f := &file{words: words, seeded: map[uint64]bool{}, named: map[string]bool{}}
	n, err := yamltext.Parse(text)
	if err == nil && n == nil {
		err = errors.New("nothing stands in it")
	}
	if err == nil {
		keys := yamltext.Keys{"trace": f.traces, "policy": f.policies, "seed": f.seeds, "baseline": func(n ast.Node) error {
			f.baseNode = n
			return yamltext.Text(&f.baseline)(n)
		}}
		for _, flag := range words.Sim {
			keys[flag] = f.axis(flag)
		}
		err = yamltext.Mapping(n, "a sweep", keys)
	}
	if err == nil {
		err = f.finish()
	}
	if err != nil {
		return nil, yamltext.Locate(name, text, err)
	}
	return &f.plan, nil
}

// file is a file that is read.
type file struct {
	words    Words
	plan     Plan
	baseline string
	baseNode ast.Node
	seeded   map[uint64]bool // the seeds so far
	named    map[string]bool // the policies so far
}

// each hands the entries of a list to a setter, or the one value that stands in its place.
func each(n ast.Node, set yamltext.Setter) error {
	if s, ok := n.(*ast.SequenceNode); ok {
		if len(s.Values) == 0 {
			return yamltext.Fault(n, "the list is empty: write one value or more")
		}
		return yamltext.List("values", set)(n)
	}
	return set(n)
}

// axis takes the values of a flag.
func (f *file) axis(flag string) yamltext.Setter {
	return func(n ast.Node) error {
		a := Axis{Name: flag}
		err := each(n, func(v ast.Node) error {
			value, err := yamltext.Scalar(v)
			if err != nil {
				return err
			}
			if err := f.words.Check(Setting{Name: flag, Value: value}); err != nil {
				return yamltext.Fault(v, "%v", err)
			}
			if flag == AxisLoad { // 1.0 is 1, and so is 0
				value = report.Exact(loadOf(value))
			}
			if slices.Contains(a.Values, value) {
				return yamltext.Fault(v, "%s is named twice", value)
			}
			a.Values = append(a.Values, value)
			return nil
		})
		f.plan.Axes = append(f.plan.Axes, a)
		return err
	}
}

// seeds takes seeds: one, a list of them, and ranges such as 1-10.
func (f *file) seeds(n ast.Node) error {
	return each(n, func(v ast.Node) error {
		text, err := yamltext.Scalar(v)
		if err != nil {
			return err
		}
		some, err := seedsOf(text, f.seeded)
		if err != nil {
			return yamltext.Fault(v, "%v", err)
		}
		f.plan.Seeds = append(f.plan.Seeds, some...)
		return nil
	})
}

// ParseSeeds reads seeds as a user writes them: 1,2,3 or 1-10, or both.
func ParseSeeds(text string) ([]uint64, error) { return seedsOf(text, map[uint64]bool{}) }

// seedsOf reads seeds that are not there yet.
func seedsOf(text string, there map[uint64]bool) (seeds []uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 64)
		to := from
		if err == nil && ranged {
			to, err = strconv.ParseUint(last, 10, 64)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is no seed: write whole numbers as in 1,2,3 or 1-10", part)
		case to < from || to-from >= uint64(mostSeeds-len(there)):
			return nil, fmt.Errorf("%s: write at most %d seeds, the smaller number first", part, mostSeeds)
		}
		for n := range to - from + 1 {
			if there[from+n] {
				return nil, fmt.Errorf("seed %d is named twice", from+n)
			}
			there[from+n] = true
			seeds = append(seeds, from+n)
		}
	}
	return seeds, nil
}

// policies takes policies: as --policy has them, or with a list of values for parameters.
func (f *file) policies(n ast.Node) error {
	return each(n, func(v ast.Node) error {
		var some []experiment.Choice
		var err error
		if m, ok := v.(ast.MapNode); ok {
			some, err = f.variants(m)
		} else {
			var text string
			if text, err = yamltext.Scalar(v); err == nil {
				if some, err = experiment.ParseChoices(text); err == nil {
					some, err = experiment.Variants(some)
				}
				if err != nil {
					err = yamltext.Fault(v, "%v", err)
				}
			}
		}
		if err != nil {
			return err
		}
		for _, c := range some {
			if _, err := c.Make(); err != nil {
				return yamltext.Fault(v, "%v", err)
			}
			if f.named[c.String()] {
				return yamltext.Fault(v, "policy %s is named twice", c)
			}
			f.named[c.String()] = true
		}
		if f.plan.Policies = append(f.plan.Policies, some...); len(f.plan.Policies) > mostTraces {
			return yamltext.Fault(v, "more than %d policies: name fewer", mostTraces)
		}
		return nil
	})
}

// variants takes policies with a mapping of parameters to values.
func (f *file) variants(m ast.MapNode) ([]experiment.Choice, error) {
	var out []experiment.Choice
	for it := m.MapRange(); it.Next(); {
		name := it.Key().GetToken().Value
		params, ok := it.Value().(ast.MapNode)
		if !ok {
			return nil, yamltext.Fault(it.Key(), "the parameters of %s are written as keys and values, one below the other", name)
		}
		axes, size, err := valuesOf(params)
		if err != nil {
			return nil, err
		}
		if size > mostTraces {
			return nil, yamltext.Fault(it.Key(), "the parameters of %s make more than %d variants", name, mostTraces)
		}
		for _, settings := range cross(axes) {
			c := experiment.Choice{Policy: name, Settings: settings}
			if _, err := c.Make(); err != nil {
				return nil, yamltext.Fault(it.Key(), "%v", err)
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// valuesOf reads keys, each with one value or a list, and counts their combinations.
func valuesOf(m ast.MapNode) (axes []Axis, size int, err error) {
	size = 1
	for it := m.MapRange(); it.Next(); {
		a := Axis{Name: it.Key().GetToken().Value}
		if it.Value() == nil {
			return nil, 0, yamltext.Fault(it.Key(), "%s has no value", a.Name)
		}
		err := each(it.Value(), func(v ast.Node) error {
			text, err := yamltext.Scalar(v)
			a.Values = append(a.Values, text)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		axes = append(axes, a)
		size = min(size*len(a.Values), mostTraces+1)
	}
	return axes, size, nil
}

// traces takes traces: files, or how they are made.
func (f *file) traces(n ast.Node) error {
	return each(n, func(v ast.Node) error {
		var some []Trace
		var err error
		if _, ok := v.(ast.MapNode); ok {
			some, err = f.made(v)
		} else {
			var file string
			file, err = yamltext.Scalar(v)
			some = []Trace{{Name: file, File: file}}
		}
		if err != nil {
			return err
		}
		for _, t := range some {
			if slices.ContainsFunc(f.plan.Traces, func(o Trace) bool { return o.Name == t.Name }) {
				return yamltext.Fault(v, "two traces are called %s: give one another name", t.Name)
			}
			f.plan.Traces = append(f.plan.Traces, t)
		}
		if len(f.plan.Traces) > mostTraces {
			return yamltext.Fault(v, "more than %d traces: name fewer", mostTraces)
		}
		return nil
	})
}

// made takes a trace that is described: a file of which each seed has a window, or one that is
// generated.
func (f *file) made(n ast.Node) ([]Trace, error) {
	var t Trace
	var likes []Axis
	keys := yamltext.Keys{"name": yamltext.Text(&t.Name), "file": yamltext.Text(&t.File), "window": yamltext.Duration(&t.Window)}
	for _, flag := range f.words.Like {
		keys[flag] = func(v ast.Node) error {
			a := Axis{Name: flag}
			err := each(v, func(v ast.Node) error {
				text, err := yamltext.Scalar(v)
				a.Values = append(a.Values, text)
				return err
			})
			likes = append(likes, a)
			return err
		}
	}
	if err := yamltext.Mapping(n, "a trace", keys); err != nil {
		return nil, err
	}
	size := 1
	for _, a := range likes {
		size = min(size*len(a.Values), mostTraces+1)
	}
	switch {
	case t.File == "" && len(likes) == 0:
		return nil, yamltext.Fault(n, "a trace is a file, or is generated: write file, or like with other flags of norn trace generate")
	case t.File != "" && len(likes) > 0:
		return nil, yamltext.Fault(n, "a trace is a file or is generated: leave out file, or %s", likes[0].Name)
	case t.File == "" && t.Window != 0:
		return nil, yamltext.Fault(n, "a trace that is generated has no window: say how long it is by span or jobs")
	case t.Window < 0:
		return nil, yamltext.Fault(n, "a window of %v: write a time above 0, such as 7d", t.Window)
	case size > mostTraces:
		return nil, yamltext.Fault(n, "the values make more than %d traces", mostTraces)
	}
	if t.File != "" {
		if t.Name == "" {
			t.Name = t.File
		}
		return []Trace{t}, nil
	}
	return f.generated(n, t.Name, likes)
}

// generated are the traces that are made with all combinations of values.
func (f *file) generated(n ast.Node, name string, likes []Axis) ([]Trace, error) {
	var out []Trace
	all := cross(likes)
	for _, settings := range all {
		if err := f.words.CheckLike(settings); err != nil {
			return nil, yamltext.Fault(n, "%v", err)
		}
		like, rest := "philly", []string{} // which norn trace generate makes where nothing else is said
		for i, s := range settings {
			if s.Name == "like" {
				like = s.Value
			} else if name == "" || len(likes[i].Values) > 1 {
				rest = append(rest, s.String())
			}
		}
		if name != "" {
			like = name
		}
		if len(rest) > 0 {
			like += "(" + strings.Join(rest, ",") + ")"
		}
		out = append(out, Trace{Name: like, Like: settings})
	}
	return out, nil
}

// finish completes the plan when all of the file has been read.
func (f *file) finish() error {
	p := &f.plan
	if len(p.Policies) == 0 {
		return errors.New("no policy is named: write policy, and one or more")
	}
	if len(p.Seeds) == 0 {
		p.Seeds = []uint64{1}
	}
	if f.baseline != "" {
		c, err := experiment.ParseChoice(f.baseline)
		if err == nil {
			_, err = c.Make()
		}
		if err != nil {
			return yamltext.Fault(f.baseNode, "%v", err)
		}
		p.Against(c)
	}
	size := float64(max(1, len(p.Traces))) * float64(len(p.Seeds)) * float64(len(p.Policies))
	for _, a := range p.Axes {
		size *= float64(len(a.Values))
	}
	if size > mostRuns {
		return fmt.Errorf("it asks for %.0f runs: %d are the most", size, mostRuns)
	}
	return nil
}

// Against compares the policies with one, which becomes the first of them where it is none yet.
func (p *Plan) Against(c experiment.Choice) {
	p.Baseline = slices.IndexFunc(p.Policies, func(o experiment.Choice) bool { return o.String() == c.String() })
	if p.Baseline < 0 {
		p.Policies, p.Baseline = append([]experiment.Choice{c}, p.Policies...), 0
	}
}
