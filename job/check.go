package job

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// MaxTasks bounds the tasks of a role, so that no sum can overflow.
const MaxTasks = 1_000_000

func (d *Demand) check() error {
	if d.Roles[0].Tasks <= 0 {
		return fmt.Errorf("asks for %d tasks, needs at least one", d.Roles[0].Tasks)
	}
	for i := range d.Roles {
		r := &d.Roles[i]
		if r.Tasks == 0 && i > 0 {
			if *r != (Role{}) {
				return fmt.Errorf("role %q has no tasks", r.Name)
			}
			continue
		}
		if err := r.check(i == 0); err != nil {
			return err
		}
	}
	return d.checkPlace()
}

// checkPlace says what is wrong with where the gang wants to be, or nil.
func (d *Demand) checkPlace() error {
	if d.Where != "" {
		if _, err := label.ParseWhere(d.Where); err != nil {
			return fmt.Errorf("where: %w", err)
		}
	}
	if d.Tolerate != "" {
		if _, err := label.ParseTolerations(d.Tolerate); err != nil {
			return fmt.Errorf("tolerate: %w", err)
		}
	}
	if d.Prefer && d.Within == "" {
		return fmt.Errorf("prefers one place and does not say of which level")
	}
	return nil
}

// SetWhere stores a condition on labels in its canonical form.
func (d *Demand) SetWhere(text string) error {
	w, err := label.ParseWhere(text)
	d.Where = w.String()
	return err
}

// SetTolerate stores the taints that the gang does not mind in their canonical form.
func (d *Demand) SetTolerate(text string) error {
	t, err := label.ParseTolerations(text)
	d.Tolerate = t.String()
	return err
}

// SetWithin stores the level of which the gang stands in one place. A question mark
// behind it says that it should, but need not.
func (d *Demand) SetWithin(text string) error {
	text = strings.TrimSpace(text)
	level, prefer := strings.CutSuffix(text, "?")
	if level = strings.TrimSpace(level); level == "" && text != "" || strings.ContainsAny(level, "?,|\n") {
		return fmt.Errorf("%q: write a level of the topology such as rack, or rack? where it should but need not", text)
	}
	d.Within, d.Prefer = level, prefer
	return nil
}

// InWithin writes Within as SetWithin reads it.
func (d *Demand) InWithin() string {
	if d.Prefer {
		return d.Within + "?"
	}
	return d.Within
}

func (r *Role) check(first bool) error {
	least, most := r.Range()
	switch {
	case r.Tasks < 0 || r.Tasks > MaxTasks || most > MaxTasks:
		return fmt.Errorf("asks for %d tasks, at most %d are allowed", max(r.Tasks, most), MaxTasks)
	case least < 1 || least > r.Tasks || most < r.Tasks:
		return fmt.Errorf("runs with %d to %d tasks but asks for %d", least, most, r.Tasks)
	case !first && least != most:
		return fmt.Errorf("role %q is elastic; only the first role can be", r.Name)
	case r.GPU < 0 || r.CPU < 0 || r.Memory < 0 || r.GPUMemory < 0:
		return fmt.Errorf("asks for a negative amount")
	case r.GPU > unit.One && r.GPU%unit.One != 0:
		return fmt.Errorf("asks for %v GPUs in one task: more than one must be a whole number", r.GPU)
	case r.GPU > 1000*unit.One:
		return fmt.Errorf("asks for %v GPUs in one task, at most 1000 are allowed", r.GPU)
	case r.CPU > 1<<40 || r.Memory > 1<<50 || r.GPUMemory > 1<<50:
		return fmt.Errorf("asks for an absurd amount of CPU or memory")
	case r.GPU == 0 && r.CPU == 0 && r.Memory == 0 && r.Slots == "":
		return fmt.Errorf("asks for no GPU, CPU or memory")
	}
	return r.Slots.check()
}

// String says the demand in a few words: "8 GPUs", "2 x 0.5 GPU + 4 CPUs".
func (d *Demand) String() string {
	var parts []string
	for i := range d.Roles {
		r := &d.Roles[i]
		if r.Tasks == 0 {
			continue
		}
		var s strings.Builder
		if d.Roles[1].Tasks > 0 && r.Name != "" {
			s.WriteString(r.Name + ": ")
		}
		switch {
		case r.GPU == unit.One && r.CPU == 0 && r.Memory == 0 && r.Slots == "":
			s.WriteString(unit.Count(int(r.Tasks), "GPU"))
		case r.Tasks > 1:
			fmt.Fprintf(&s, "%d x (%s)", r.Tasks, r.each())
		default:
			s.WriteString(r.each())
		}
		if least, most := r.Range(); least != most {
			fmt.Fprintf(&s, " (%d to %d tasks)", least, most)
		}
		parts = append(parts, s.String())
	}
	out := strings.Join(parts, ", ")
	if d.Types != "" {
		out += " of type " + strings.ReplaceAll(d.Types, "|", " or ")
	}
	if d.Where != "" {
		out += " where " + d.Where
	}
	switch {
	case d.Prefer:
		out += " in one " + d.Within + " if possible"
	case d.Within != "":
		out += " in one " + d.Within
	}
	return out
}

func (r *Role) each() string {
	var parts []string
	if r.GPU > 0 {
		parts = append(parts, countMilli(r.GPU, "GPU"))
	}
	if r.CPU > 0 {
		parts = append(parts, countMilli(r.CPU, "CPU"))
	}
	if r.Memory > 0 {
		parts = append(parts, r.Memory.String()+" memory")
	}
	for name, n := range r.Slots.All() {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	return strings.Join(parts, " + ")
}

func countMilli(m unit.Milli, noun string) string {
	if m <= unit.One {
		return m.String() + " " + noun
	}
	return m.String() + " " + noun + "s"
}

// Interner hands out one shared Demand for each shape.
type Interner struct{ known map[Demand]*Demand }

// Get returns the shared Demand equal to d.
func (in *Interner) Get(d Demand) *Demand {
	if p, ok := in.known[d]; ok {
		return p
	}
	if in.known == nil {
		in.known = map[Demand]*Demand{}
	}
	p := new(Demand)
	*p = d
	in.known[d] = p
	return p
}
