// Command study reads what examples/finetune/measure.py has measured of tasks that are
// tuned, and says what Ymir's estimator would have foretold of it, and how jobs of
// these tasks would fare on some slots:
//
//	go run ./examples/finetune/study matrix.json
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// measured is the file that measure.py writes.
type measured struct {
	Families []family `json:"families"`
}

// family is what was measured of the tasks of a backbone.
type family struct {
	Family   string `json:"family"`
	Profile  int    `json:"profile"` // steps of a profile
	Tasks    []task `json:"tasks"`
	After    []pair `json:"after"`    // trained on from what another task has learnt
	Together []pair `json:"together"` // trained as one with another task; may be empty
}

// task is a task alone. Each list has an element for each seed.
type task struct {
	Task      string         `json:"task"`
	Target    float64        `json:"target"` // accuracy at which it is done
	Half      int            `json:"half"`   // half of the steps that it needs, where accuracies are compared
	K         []float64      `json:"k"`      // steps to the target
	Accuracy  []float64      `json:"accuracy"`
	Final     []float64      `json:"final"`
	Loss      [][][2]float64 `json:"loss"` // steps and mean losses
	Embedding [][]float64    `json:"embedding"`
}

// pair is what one task has of another one.
type pair struct {
	From     string    `json:"from"`
	To       string    `json:"to"`
	K        []float64 `json:"k"`
	Accuracy []float64 `json:"accuracy"` // after half of the steps that it needs alone
	Final    []float64 `json:"final"`
}

// policies are those that are compared by default.
const policies = "ymir(profile=0s,interval=10s,gap=1s),ymir(merge=none,profile=0s,interval=10s,gap=1s),optimus(interval=1s)"

// The ways to merge two tasks.
const (
	after    = "after"
	together = "together"
)

func main() {
	var s fleet
	out := flag.String("out", "", "file for the figures as JSON")
	flag.StringVar(&s.policies, "policies", policies, "which are compared")
	flag.IntVar(&s.slots, "slots", 4, "slots that are simulated")
	flag.IntVar(&s.jobs, "jobs", 3, "jobs of each task")
	flag.DurationVar(&s.step, "step", 10*time.Millisecond, "time of a step")
	flag.DurationVar(&s.every, "every", time.Second, "a job comes so often")
	flag.DurationVar(&s.cold, "cold", 3*time.Second, "start of a job whose backbone is not loaded")
	flag.DurationVar(&s.warm, "warm", 200*time.Millisecond, "start of a job whose backbone is")
	flag.Uint64Var(&s.seed, "seed", 1, "of the order in which jobs come")
	flag.Parse()
	if err := study(flag.Args(), s, *out); err != nil {
		fmt.Fprintln(os.Stderr, "study:", err)
		os.Exit(1)
	}
}

// figures are all that is written as JSON.
type figures struct {
	Gains     []forecast `json:"gains"`
	K         []lengths  `json:"k"`
	Simulated []outcome  `json:"simulated"`
}

func study(args []string, s fleet, out string) error {
	if len(args) != 1 {
		return fmt.Errorf("give one file that measure.py has written, not %q", args)
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var m measured
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	f, err := m.figures(s)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if out == "" {
		return nil
	}
	data, err = json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(data, '\n'), 0o644)
}

// figures computes and prints everything.
func (m *measured) figures(s fleet) (*figures, error) {
	f := &figures{}
	for i := range m.Families {
		fam := &m.Families[i]
		if err := fam.check(); err != nil {
			return nil, err
		}
		for _, kind := range []struct {
			name  string
			pairs []pair
		}{{after, fam.After}, {together, fam.Together}} {
			if len(kind.pairs) > 0 {
				f.Gains = append(f.Gains, fam.foretell(kind.name, kind.pairs))
			}
		}
		k, err := fam.lengths()
		if err != nil {
			return nil, err
		}
		f.K = append(f.K, k)
	}
	printGains(f.Gains)
	printLengths(f.K)
	var err error
	f.Simulated, err = s.simulate(context.Background(), m)
	if err == nil {
		printOutcomes(f.Simulated, s)
	}
	return f, err
}

// check tells whether everything that is computed with is there.
func (f *family) check() error {
	for _, t := range f.Tasks {
		seeds := len(t.K)
		if seeds == 0 || len(t.Accuracy) != seeds || len(t.Loss) != seeds || len(t.Embedding) != seeds {
			return fmt.Errorf("%s %s: seeds differ in number, or there are none", f.Family, t.Task)
		}
	}
	for _, p := range append(f.After[:len(f.After):len(f.After)], f.Together...) {
		if f.task(p.From) == nil || f.task(p.To) == nil || len(p.K) == 0 || len(p.Accuracy) == 0 {
			return fmt.Errorf("%s: %s to %s: no such task, or nothing measured", f.Family, p.From, p.To)
		}
	}
	return nil
}

func (f *family) task(name string) *task {
	for i := range f.Tasks {
		if f.Tasks[i].Task == name {
			return &f.Tasks[i]
		}
	}
	return nil
}

// speedUp is how many times fewer steps a task needs with another one.
func (f *family) speedUp(p pair) float64 { return mean(f.task(p.To).K) / mean(p.K) }

// gain is by how much a task is more accurate with another one, relatively.
func (f *family) gain(p pair) float64 { return mean(p.Accuracy)/mean(f.task(p.To).Accuracy) - 1 }

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// title prints a heading.
func title(text string) { fmt.Printf("\n%s\n%s\n", text, strings.Repeat("-", len(text))) }
