// Package foreign has policies that are programs of their own, in any language. Norn starts
// the program and tells it what has changed, and the program answers with a plan, both as
// JSON Lines over its standard input and output. docs/external-policies.md describes the
// protocol. The plan is checked like that of any other policy.
//
// Nouns:
//   - The command is the program with its arguments.
//   - A process is one run of the command.
//   - A message is what a process is told before a decision, and an answer is what it
//     replies. Each is one line.
//   - An act is one element of a plan: to start a job, to stop one, and so on.
//   - A failure is a process that ends, writes what is no answer, or takes too long.
//
// A process may be killed at any time. Another one then takes its place and is told the
// whole state. After several failures in a row first in, first out decides for the rest of
// the run, and Remarks says so. In a live world (Live) such a plan fails instead, so that its
// daemon puts another policy in force, and nobody else may write the files of the command.
//
// Times on the wire are seconds since the start of the run, sizes are GPUs, cores and bytes.
// The package reads the clock to see how long a process takes, and for nothing else: a
// process that decides the same has the same event log written.
package foreign

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// Name is what users call a policy of this package.
const Name = "exec"

// Entry is the policy as experiment.ParseChoices takes it, beside those of the table.
func Entry() policy.Entry {
	return policy.Entry{
		Name: Name, Title: "a program in any language, over its standard input and output", Source: "docs/external-policies.md",
		New: func() policy.Config { return NewConfig() }, Acts: policy.Preempts, Note: func() sched.Note { return new(note) },
	}
}

// Live is the policy for a live world, as its owner names it: a policy of the same name that
// waits less long for its program, and starts none that somebody else could have written.
func Live() policy.Entry {
	e := Entry()
	e.New = func() policy.Config {
		c := NewConfig()
		c.Budget, c.Begin, c.Tries, c.live = 2*time.Second, 5*time.Second, 2, true
		return c
	}
	return e
}

// mostPatience is how long a live world may wait for a decision. It answers nobody meanwhile.
const mostPatience = time.Minute

// Config is the settings of the policy.
type Config struct {
	Command string         // program and arguments, see Words
	Budget  time.Duration  // for one decision
	Begin   time.Duration  // from the start of a process to its greeting
	Tries   int            // processes that one decision is asked of, before others decide
	Elastic bool           // it resizes jobs: those that resize in place outlive the loss of a node
	Place   place.Strategy // where an act names none

	live bool // see Live
}

// NewConfig returns the defaults. There is no command among them.
func NewConfig() *Config {
	return &Config{Budget: 10 * time.Second, Begin: 30 * time.Second, Tries: 3, Place: place.Pack}
}

// First is the parameter whose value may be written without its name: exec(./mine.py).
func (c *Config) First() string { return "command" }

// Params binds the settings.
func (c *Config) Params() param.Set {
	return param.Set{
		param.Text("command", &c.Command, "the program and its arguments; quotes keep spaces together"),
		param.Duration("budget", &c.Budget, "how long a decision may take"),
		param.Duration("begin", &c.Begin, "how long the program may take to start"),
		param.Int("tries", &c.Tries, 1, 100, "", "how often a decision is asked for before first in, first out decides"),
		param.Bool("elastic", &c.Elastic, "the program resizes jobs"),
		place.Param(&c.Place),
	}
}

// Resizes tells whether the policy changes the number of tasks of running jobs.
func (c *Config) Resizes() bool { return c.Elastic }

// Patience is how long a decision may take at most, with all processes that are asked.
func (c *Config) Patience() time.Duration {
	return time.Duration(c.Tries) * (c.Begin + c.Budget + 3*patience) // three seconds to end one
}

// Needs is empty: nobody knows what a program lives on.
func (c *Config) Needs() need.List { return nil }

// Policy makes the policy. It fails where there is no such program; the program is not
// started before the first decision.
func (c *Config) Policy() (sched.Policy, error) { return New(*c) }

// New makes the policy, as Policy does.
func New(c Config) (*Policy, error) {
	words, err := Words(c.Command)
	if err != nil {
		return nil, fmt.Errorf("command %s: %w", c.Command, err)
	}
	if len(words) == 0 {
		return nil, errors.New("name the program: exec(./mine.py), or exec(command=python3 mine.py)")
	}
	if c.Budget <= 0 || c.Begin <= 0 {
		return nil, errors.New("budget and begin must be more than 0")
	}
	if words[0], err = find(words[0]); err != nil {
		return nil, err
	}
	if c.live {
		if c.Patience() > mostPatience {
			return nil, fmt.Errorf("budget %s and begin %s, tried %s, come to more than %s, and nobody is answered meanwhile: make them less",
				unit.Human(c.Budget), unit.Human(c.Begin), times(c.Tries), unit.Human(mostPatience))
		}
		if words[0], err = filepath.Abs(words[0]); err != nil {
			return nil, err
		}
		if err := ownAlone(words); err != nil {
			return nil, err
		}
	}
	return &Policy{Stderr: os.Stderr, cfg: c, words: words, wake: unit.Never}, nil
}

// find finds a program, and says where a name without a folder was looked for.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot), !strings.ContainsAny(name, `/\`) && exists(name):
		return "", fmt.Errorf("there is no program %s on the PATH: write ./%s for the file in this folder, or name its interpreter: python3 %s", name, name, name)
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("%s may not be executed: chmod +x makes a program of it, or name its interpreter: python3 %s", name, name)
	}
	return "", fmt.Errorf("there is no program %s", name)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// Words divides a command into the program and its arguments. Spaces divide, but not those
// between quotes, single or double. There are no other rules, and no shell.
func Words(command string) ([]string, error) {
	var out []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			if begun {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the closing %c is missing", quote)
	}
	if begun {
		out = append(out, word.String())
	}
	return out, nil
}

// Policy is a program that decides. It must be closed when the run has ended.
type Policy struct {
	// Stderr is where the standard error of the program goes, line by line, each after the
	// name of the policy. It may be set before the first decision; it is os.Stderr.
	Stderr io.Writer

	cfg   Config
	words []string

	guard  sync.Mutex // of what follows, which Close and Remarks look at while a decision may go on
	proc   *process
	closed bool
	ups    int // processes that were started
	last   error
	gaveUp time.Duration // when others began to decide
	others sched.Policy  // who decide in its place; nil: it decides

	mirror mirror
	line   int64 // of the answers of the process
	wake   time.Duration
	asked  int64 // decisions so far
}

// Decide implements sched.Policy.
func (c *Policy) Decide(v *sched.View, p *sched.Plan) {
	if c.others != nil {
		c.others.Decide(v, p)
		return
	}
	c.asked++
	random := int64(0)
	if v.Rand != nil {
		random = int64(v.Rand.Uint64() >> 11) // a number that every language holds exactly
	}
	if v.First {
		c.mirror.reset()
	}
	answer, err := c.ask(v, p, random)
	switch {
	case errors.Is(err, errClosed):
		p.Invalidate(err)
	case err != nil && c.cfg.live: // whoever runs that world says who decides instead
		p.Invalidate(fmt.Errorf("the program failed%s: %w", inARow(c.cfg.Tries), err))
	case err != nil:
		c.giveUp(v, p, err)
	default:
		c.wake = answer.wake
		c.carryOut(v, p, answer)
	}
}

// errClosed is the error of a decision that nobody waits for any more.
var errClosed = errors.New("it was closed")

// ask has processes answer, one after the other, until one does.
func (c *Policy) ask(v *sched.View, p *sched.Plan, random int64) (*answer, error) {
	var failure error
	for range c.cfg.Tries {
		proc, err := c.process()
		if err == nil {
			var out *answer
			if out, err = c.consult(proc, v, p, random); err == nil {
				return out, nil
			}
		}
		if c.drop(err) {
			return nil, errClosed
		}
		failure = err
	}
	return nil, failure
}

// consult asks one process.
func (c *Policy) consult(proc *process, v *sched.View, p *sched.Plan, random int64) (*answer, error) {
	message, err := c.mirror.message(v, p, c, random)
	if err != nil {
		return nil, err
	}
	line, err := proc.exchange(message, c.cfg.Budget)
	if err != nil {
		return nil, err
	}
	c.line++
	out, err := readAnswer(line, c.asked, v.Now)
	if err != nil {
		return nil, fmt.Errorf("line %d of its answers: %w: %s", c.line, err, short(line))
	}
	return out, nil
}

// process is the process that is asked, a new one where there is none.
func (c *Policy) process() (*process, error) {
	proc, fresh, err := c.running()
	if err != nil || !fresh {
		return proc, err
	}
	c.line = 0
	c.mirror.reset()
	c.mirror.past, err = c.greet(proc)
	return proc, err
}

// running is the process there is, or a fresh one.
func (c *Policy) running() (proc *process, fresh bool, err error) {
	c.guard.Lock()
	defer c.guard.Unlock()
	switch {
	case c.closed:
		return nil, false, errClosed
	case c.proc != nil:
		return c.proc, false, nil
	}
	if c.cfg.live {
		if err := ownAlone(c.words); err != nil {
			return nil, false, err
		}
	}
	if proc, err = start(c.words, &labelled{to: c.Stderr, label: c.String() + ": "}); err != nil {
		return nil, false, err
	}
	c.proc = proc
	c.ups++
	return proc, true, nil
}

// greet tells a process who speaks, and hears whether it wants to know of the past.
func (c *Policy) greet(proc *process) (past bool, err error) {
	line, err := proc.exchange(hello(c.String()), c.cfg.Begin)
	if err != nil {
		return false, fmt.Errorf("its greeting: %w", err)
	}
	c.line++
	if past, err = readHello(line); err != nil {
		err = fmt.Errorf("line 1, its greeting: %w: %s", err, short(line))
	}
	return past, err
}

// drop ends a process that has failed, and tells whether the policy was closed meanwhile.
func (c *Policy) drop(why error) (closed bool) {
	c.guard.Lock()
	defer c.guard.Unlock()
	if c.proc != nil {
		c.proc.kill()
		c.proc = nil
	}
	if c.last = why; !c.closed {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c, why)
	}
	return c.closed
}

// giveUp has first in, first out decide from now on. It is told of every active job, as a
// policy is that is asked for the first time.
func (c *Policy) giveUp(v *sched.View, p *sched.Plan, why error) {
	others, err := fifo.NewConfig().Policy()
	if err != nil {
		p.Invalidate(err)
		return
	}
	c.guard.Lock()
	c.others, c.gaveUp, c.last = others, v.Now, why
	c.guard.Unlock()
	fmt.Fprintf(c.Stderr, "%s: first in, first out (fifo) decides from here on, at %s\n", c, unit.Human(v.Now))
	w := v.Within(v.Pool, everything(v))
	w.All, w.First = v.All, true
	others.Decide(&w, p)
}

// everything lists the active jobs, by number.
func everything(v *sched.View) []sched.Change {
	var out []sched.Change
	for j := range v.Waiting() {
		kind := sched.Arrived
		if _, ran := j.FirstStart(); ran {
			kind = sched.Stopped
		}
		out = append(out, sched.Change{Job: j.ID, Kind: kind})
	}
	for j := range v.Running() {
		out = append(out, sched.Change{Job: j.ID, Kind: sched.Runs})
	}
	slices.SortFunc(out, func(a, b sched.Change) int { return int(a.Job) - int(b.Job) })
	return out
}

// NextWake implements sched.Waker.
func (c *Policy) NextWake(v *sched.View) time.Duration {
	if c.others == nil {
		return c.wake
	}
	if w, ok := c.others.(sched.Waker); ok {
		return w.NextWake(v)
	}
	return unit.Never
}

// Why implements sched.Explainer. A plan tells the reasons of its program; this is for jobs
// about which it has said nothing.
func (c *Policy) Why(v *sched.View, id job.ID) job.Reason {
	if w, ok := c.others.(sched.Explainer); ok {
		return w.Why(v, id)
	}
	j := v.Job(id)
	if need, free := j.GPUs(), v.FreeOf(v.Class(j.Class()).Mask); need > free {
		return job.Reason{Code: job.NeedGPUs, Need: int32(need), Have: int32(free), Job: job.None}
	}
	return job.Reason{Code: job.Outranked, Job: job.None}
}

// String names the policy as tables do.
func (c *Policy) String() string { return Name + "(" + c.cfg.Command + ")" }

// Close ends the process. The policy must not be asked any more; a decision that goes on
// fails.
func (c *Policy) Close() error {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.closed = true
	if c.proc != nil {
		c.proc.end()
		c.proc = nil
	}
	return nil
}

// Remarks says what a user must know before believing the figures: that processes have
// failed, and that others have decided in their place.
func (c *Policy) Remarks() []string {
	c.guard.Lock()
	defer c.guard.Unlock()
	switch {
	case c.others != nil:
		return []string{fmt.Sprintf("the program failed%s at %s, and first in, first out (fifo) has decided from then on; the last failure: %v", inARow(c.cfg.Tries), unit.Human(c.gaveUp), c.last)}
	case c.ups > 1:
		return []string{fmt.Sprintf("the program was started again %s, and told the whole state; the last failure: %v", times(c.ups-1), c.last)}
	}
	return nil
}

func inARow(n int) string {
	if n == 1 {
		return ""
	}
	return " " + times(n) + " in a row"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// short is the beginning of a line, for an error.
func short(line []byte) string {
	const most = 200
	text := strings.TrimSpace(string(line))
	if len(text) > most {
		return text[:most] + "..."
	}
	if text == "" {
		return "(an empty line)"
	}
	return text
}
