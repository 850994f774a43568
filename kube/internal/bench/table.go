package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// row is one figure beside its bar.
type row struct {
	Bar      string            `json:"bar"`
	Scenario string            `json:"scenario"`
	What     string            `json:"what"` // with its unit
	Norn     float64           `json:"norn"`
	Limit    float64           `json:"limit,omitempty"` // 0: there is none
	Rivals   string            `json:"rivals,omitempty"`
	Bound    string            `json:"bound"`
	Met      bool              `json:"met"`
	Paces    map[string][]pace `json:"paces,omitempty"` // by contender, a pace for each round
}

func (b *bench) add(r row) {
	b.rows = append(b.rows, r)
	b.say("%s, %s: %s, limit %s, bound %s: %s", r.Scenario, r.What, figure(r.Norn), cmp.Or(figure(r.Limit), "none"), cmp.Or(r.Bound, "none"), r.verdict())
}

// median is the middle one of the values of several rounds, the lower one of two.
func median[T any](all []T, of func(*T) float64) float64 {
	var out []float64
	for i := range all {
		out = append(out, of(&all[i]))
	}
	if len(out) == 0 {
		return 0
	}
	slices.Sort(out)
	return out[(len(out)-1)/2]
}

// figure writes a number with three digits that count.
func figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// verdict tells whether a figure keeps its bound; empty: it has none.
func (r *row) verdict() string {
	switch {
	case r.Bound == "":
		return ""
	case r.Met:
		return "met"
	}
	return "**missed**"
}

// table is all rows for readers.
func (b *bench) table() string {
	var out strings.Builder
	m := b.report()
	fmt.Fprintf(&out, "%s, %d cores of %s, %s, Kubernetes %s, commit %s, %s; load of the machine %s.\n\n", m.Go, m.Cores, m.Processor, m.Platform, m.Kubernetes, m.Commit, m.Day, m.Load)
	out.WriteString("| bar | scenario | figure | Norn | limit | Norn to limit | others | bound | |\n|---|---|---|--:|--:|--:|---|---|---|\n")
	for _, r := range b.rows {
		ratio := ""
		if r.Limit > 0 {
			ratio = figure(r.Norn / r.Limit)
		}
		norn := figure(r.Norn)
		if norn == "" {
			norn = "0"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Bar, r.Scenario, r.What, norn, figure(r.Limit), ratio, r.Rivals, r.Bound, r.verdict())
	}
	return out.String()
}

// report is all of a run for programs.
type report struct {
	Commit     string `json:"commit"`
	Day        string `json:"day"`
	Go         string `json:"go"`
	Kubernetes string `json:"kubernetes"`
	Platform   string `json:"platform"`
	Processor  string `json:"processor"`
	Cores      int    `json:"cores"`
	Load       string `json:"load"` // means of 1, 5 and 15 minutes, the run itself included
	Rounds     int    `json:"rounds"`
	Rows       []row  `json:"rows"`
}

func (b *bench) report() report {
	r := report{
		Commit: "unknown", Day: time.Now().Format(time.DateOnly), Go: runtime.Version(), Kubernetes: testenv.Version, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Processor: "an unnamed processor", Cores: runtime.NumCPU(), Rounds: b.rounds, Rows: b.rows,
	}
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		r.Commit = strings.TrimSpace(string(out))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load = strings.Join(strings.Fields(string(text))[:3], ", ")
	}
	text, _ := os.ReadFile("/proc/cpuinfo") // not there on other systems
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			r.Processor = strings.TrimSpace(value)
			break
		}
	}
	return r
}

// hasScheduler tells whether kube-scheduler has been built.
func hasScheduler() bool {
	dir, err := testenv.Folder()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, "kube-scheduler"))
	return err == nil
}
