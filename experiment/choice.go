package experiment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Choice is a policy and the settings that differ from its defaults.
type Choice struct {
	Policy   string // its name in policy.Table, or that of Own
	Settings []Setting

	// Own is a policy that is not in the table: a program can bring its own. Nil stands
	// for the policy of that name in the table.
	Own *policy.Entry
}

// Setting is one parameter and its value as a user writes it.
type Setting = eventlog.Setting

// Own is the choice of a policy that the caller brings, with some settings.
func Own(e policy.Entry, settings ...Setting) Choice {
	return Choice{Policy: e.Name, Settings: settings, Own: &e}
}

// Made is the choice of a policy that the caller makes: any value that implements
// sched.Policy, under a name, without settings. build is called for each run, and for each
// partition of a cluster.
func Made(name string, build func() (sched.Policy, error)) Choice {
	return Own(policy.Entry{Name: name, Title: "a policy of the caller", New: func() policy.Config { return value{build} }, Acts: policy.Preempts})
}

// value is a policy without settings.
type value struct {
	build func() (sched.Policy, error)
}

// Params is empty.
func (value) Params() param.Set { return nil }

// Needs is empty: nobody knows what it lives on.
func (value) Needs() need.List { return nil }

// Policy makes the policy.
func (v value) Policy() (sched.Policy, error) { return v.build() }

// String is how tables name the choice: tiresias, or tiresias(limits=500).
func (c Choice) String() string {
	if len(c.Settings) == 0 {
		return c.Policy
	}
	text := joined(c.Settings, ",")
	if first := c.first(); first != "" && c.Settings[0].Name == first {
		text = strings.TrimPrefix(text, first+"=")
	}
	return c.Policy + "(" + text + ")"
}

// longest is the length in bytes of the longest name of a policy with settings that tables and folders have whole.
const longest = 160

// Label is String, cut where that is too long for a table or for the name of a folder: what follows the
// beginning tells choices apart that begin alike.
func (c Choice) Label() string {
	text := c.String()
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s… #%x)", strings.ToValidUTF8(text[:longest/2], ""), sum[:4])
}

// first is the parameter whose value may be written without its name, where the policy is the
// caller's own and has one, or stands in a log and is a program; empty: it has none.
func (c Choice) first() string {
	if c.Own == nil {
		if c.Policy == foreign.Name {
			return foreign.NewConfig().First()
		}
		return ""
	}
	if f, ok := c.Own.New().(interface{ First() string }); ok {
		return f.First()
	}
	return ""
}

// joined are settings as texts have them, with something between them.
func joined(all []Setting, between string) string {
	parts := make([]string, len(all))
	for i, s := range all {
		parts[i] = s.String()
	}
	return strings.Join(parts, between)
}

// Entry is the line of the table that the choice is about, or the caller's own. It
// fails on a name that is not in the table, and says which are.
func (c Choice) Entry() (policy.Entry, error) {
	if c.Own != nil {
		return *c.Own, nil
	}
	if c.Policy == foreign.Name {
		return policy.Entry{}, fmt.Errorf("%s: %w", c, ErrUnnamed)
	}
	return policy.ByName(c.Policy)
}

// ErrUnnamed is the error of a program that is named by no command line or configuration.
var ErrUnnamed = errors.New("a program that decides is started only where a command line names it (norn sim, norn plan, norn up), or the configuration of norn up")

// Patience is how long a decision of the policy may take of its own accord; 0: it does not
// say. It is 0 for a choice that Make refuses.
func (c Choice) Patience() time.Duration {
	_, cfg, err := c.config()
	if err != nil {
		return 0
	}
	if p, ok := cfg.(interface{ Patience() time.Duration }); ok {
		return p.Patience()
	}
	return 0
}

// config is the settings of the policy as they are chosen.
func (c Choice) config() (policy.Entry, policy.Config, error) {
	e, err := c.Entry()
	if err != nil {
		return e, nil, err
	}
	cfg := e.New()
	for _, s := range c.Settings {
		if err := cfg.Params().Set(s.Name, s.Value); err != nil {
			return e, nil, fmt.Errorf("policy %s: %w", c.Policy, err)
		}
	}
	return e, cfg, nil
}

// Shares tells whether the policy puts several jobs on a device, always or as it is set.
// It is false for a choice that Make refuses.
func (c Choice) Shares() bool {
	e, cfg, err := c.config()
	if err != nil {
		return false
	}
	sharer, ok := cfg.(interface{ Shares() bool })
	return e.Acts.Has(policy.Shares) || ok && sharer.Shares()
}

// Resizes tells whether the policy changes the number of tasks of running jobs, always or as
// it is set. It is false for a choice that Make refuses.
func (c Choice) Resizes() bool {
	e, cfg, err := c.config()
	if err != nil {
		return false
	}
	resizer, ok := cfg.(interface{ Resizes() bool })
	return e.Acts.Has(policy.Resizes) || ok && resizer.Resizes()
}

// Needs says what the policy lives on, as it is set. It is empty for a choice that Make
// refuses.
func (c Choice) Needs() need.List {
	_, cfg, err := c.config()
	if err != nil {
		return nil
	}
	return cfg.Needs()
}

// Believe makes what the policy believes from measurements, as it is set; nil: it has no
// estimator of its own.
func (c Choice) Believe() engine.Believe {
	_, cfg, err := c.config()
	if err != nil {
		return nil
	}
	if e, ok := cfg.(interface {
		Believer(perf.Prior) perf.Believer
	}); ok && e.Believer(perf.Prior{}) != nil { // nil: as it is set, it learns nothing
		return e.Believer
	}
	return nil
}

// Make builds the policy. It fails on an unknown policy, setting or value, and
// says which are known.
func (c Choice) Make() (sched.Policy, error) {
	_, cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	p, err := cfg.Policy()
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", c.Policy, err)
	}
	return p, nil
}

// ParseChoice reads a policy with settings of its own, as tables name it:
// tiresias(limits=3600,36000,promote=2). A part without = goes on with the value
// before it. A name is looked for among own first, and then in the table. Whether there
// is such a policy, and such settings, is told by Make.
//
// A policy of the caller's own whose Config has a method First() string takes the value of
// that parameter without its name: exec(./mine.py). Such a value may be any text, so = only
// divides what stands behind the name of a parameter.
func ParseChoice(text string, own ...policy.Entry) (Choice, error) {
	text = strings.TrimSpace(text)
	name, inside, has := strings.Cut(text, "(")
	c := Choice{Policy: strings.TrimSpace(name)}
	if i := slices.IndexFunc(own, func(e policy.Entry) bool { return e.Name == c.Policy }); i >= 0 {
		c = Own(own[i])
	}
	if c.Policy == foreign.Name && c.Own == nil {
		return c, fmt.Errorf("%s: %w", text, ErrUnnamed)
	}
	if !has {
		return c, nil
	}
	inside, closed := strings.CutSuffix(inside, ")")
	if !closed {
		return c, fmt.Errorf("%s: the closing parenthesis is missing", text)
	}
	first := c.first()
	for part := range strings.SplitSeq(inside, ",") {
		key, value, set := strings.Cut(part, "=")
		if first != "" {
			set = set && slices.Contains(c.Own.New().Params().Names(), strings.TrimSpace(key))
		}
		switch n := len(c.Settings); {
		case set:
			c.Settings = append(c.Settings, Setting{Name: strings.TrimSpace(key), Value: strings.TrimSpace(value)})
		case n > 0:
			c.Settings[n-1].Value += "," + strings.TrimSpace(part)
		case first != "":
			c.Settings = append(c.Settings, Setting{Name: first, Value: strings.TrimSpace(part)})
		default:
			return c, fmt.Errorf("%s: write settings as %s(param=value)", text, c.Policy)
		}
	}
	return c, nil
}

// Moving is the policy that the choice has made with moves before its decisions, as defrag.Wrap adds them.
// Nothing is added where moves is nil, or where the policy shares GPUs.
func (c *Choice) Moving(p sched.Policy, moves *defrag.Config) sched.Policy {
	if moves == nil || c.Shares() {
		return p
	}
	return defrag.Wrap(p, *moves)
}

// mostRead is how long a file of policies may be.
const mostRead = 64 << 20

// ListOf is a list of policies as a user names it, in which @FILE stands for those that a file holds. There a
// policy may be broken over lines at its commas, several may stand in lines of their own, and lines that begin
// with # are comments.
func ListOf(text string) (string, error) {
	list := split(text)
	for i, one := range list {
		if name, named := strings.CutPrefix(strings.TrimSpace(one), "@"); named {
			var err error
			if list[i], err = listIn(name); err != nil {
				return "", err
			}
		}
	}
	return strings.Join(list, ","), nil
}

// listIn is the list of policies in a file.
func listIn(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	held, err := io.ReadAll(io.LimitReader(file, mostRead+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, err)
	case len(held) > mostRead:
		return "", fmt.Errorf("%s: more than %d bytes are not read", name, mostRead)
	}
	list, last := strings.Builder{}, byte(',')
	for line := range strings.Lines(string(held)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if last != ',' && last != '(' && line[0] != ')' {
			list.WriteByte(',')
		}
		list.WriteString(line)
		last = line[len(line)-1]
	}
	if list.Len() == 0 {
		return "", fmt.Errorf("%s names no policy", name)
	}
	return list.String(), nil
}

// ParseChoices reads a list of policies with commas between them, each as ParseChoice
// does: fifo,tiresias(limits=3600,36000). A comma inside of parentheses divides nothing.
func ParseChoices(list string, own ...policy.Entry) ([]Choice, error) {
	var out []Choice
	for _, text := range split(list) {
		c, err := ParseChoice(text, own...)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// split divides a list at the commas that stand outside of parentheses.
func split(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			out = append(out, list[from:i])
			from = i + 1
		}
	}
	return append(out, list[from:])
}

// Assign gives a setting, policy.param=value, to the choices of that policy. Where there
// are several choices, one that has a value of its own keeps it. It fails where the text
// is none, and where no choice is of that policy. Whether the policy has such a
// parameter is told by Make.
func Assign(all []Choice, text string) error {
	target, value, ok := strings.Cut(text, "=")
	name, key, dotted := strings.Cut(target, ".")
	if !ok || !dotted {
		return fmt.Errorf("%s: write policy.param=value", text)
	}
	used := false
	var names []string
	for i := range all {
		c := &all[i]
		names = append(names, c.Policy)
		if c.Policy != name {
			continue
		}
		used = true
		own := slices.ContainsFunc(c.Settings, func(s Setting) bool { return s.Name == key })
		if !own || len(all) == 1 {
			c.Settings = append(c.Settings, Setting{Name: key, Value: value})
		}
	}
	if !used {
		return fmt.Errorf("%s: policy %s is not among those that are run (%s)%s", text, name, strings.Join(names, ", "), param.Near(name, names))
	}
	return nil
}

// Variants puts, in the place of each choice, one for each combination of the values that
// its settings list: tiresias(promote=2|8) becomes two. Values stand with | between them, or
// with commas where the parameter takes no such list itself, as in promote=2,8. It fails
// where there are more than 1,000.
func Variants(all []Choice) ([]Choice, error) {
	var out []Choice
	for _, c := range all {
		made := []Choice{c}
		made[0].Settings = nil
		for _, s := range c.Settings {
			var next []Choice
			for _, m := range made {
				for _, value := range c.values(s) {
					v := m
					v.Settings = append(slices.Clone(m.Settings), Setting{Name: s.Name, Value: value})
					next = append(next, v)
				}
				if len(out)+len(next) > mostVariants {
					return nil, fmt.Errorf("the settings of %s make more than %d variants: name fewer values", c.Policy, mostVariants)
				}
			}
			made = next
		}
		out = append(out, made...)
	}
	return out, nil
}

const mostVariants = 1000

// values are those that a setting lists; itself alone where it lists none.
func (c Choice) values(s Setting) []string {
	e, err := c.Entry()
	switch {
	case err == nil && e.New().Params().Set(s.Name, s.Value) == nil: // such as a command with a pipe
		return []string{s.Value}
	case strings.Contains(s.Value, "|"):
		return parts(s.Value, "|")
	case err != nil || !strings.Contains(s.Value, ","):
		return []string{s.Value}
	}
	list := parts(s.Value, ",")
	for _, v := range list {
		if e.New().Params().Set(s.Name, v) != nil {
			return []string{s.Value} // which Make refuses, and says what is wanted
		}
	}
	return list
}

func parts(text, between string) []string {
	out := strings.Split(text, between)
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// CheckChoices fails where one of the choices cannot be made, and where two are the same:
// nobody could tell their rows in a table apart.
func CheckChoices(all []Choice) error {
	for i, c := range all {
		if _, err := c.Make(); err != nil {
			return err
		}
		if slices.ContainsFunc(all[:i], func(other Choice) bool { return other.String() == c.String() }) {
			return fmt.Errorf("policy %s is named twice; variants differ in their settings, as in tiresias,tiresias(promote=2)", c)
		}
	}
	return nil
}

// ChoiceOf is the policy under which a log was written.
func ChoiceOf(h *eventlog.Header) Choice {
	return Choice{Policy: h.Policy, Settings: slices.Clone(h.Settings)}
}
