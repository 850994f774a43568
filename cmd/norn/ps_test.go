package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"github.com/norn-scheduler/norn/internal/grid"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

func jobsText(t *testing.T, list []api.Job, format string, width int) string {
	t.Helper()
	var b strings.Builder
	if err := writeJobs(&b, list, format, noon, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPsTables: the list at several widths; no line is wider than the terminal,
// and nothing that a terminal would obey is left in it.
func TestPsTables(t *testing.T) {
	list := sampleJobs()
	var all strings.Builder
	for _, width := range []int{0, 120, 80, 60, 40} {
		text := jobsText(t, list, "text", width)
		fmt.Fprintf(&all, "width %d\n%s\n", width, text)
		for line := range strings.Lines(text) {
			if n := grid.Cells(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d cells at a width of %d: %s", n, width, line)
			}
		}
		if strings.ContainsRune(text, '\x1b') {
			t.Errorf("an escape at a width of %d", width)
		}
	}
	golden(t, "ps.txt", all.String()+"wide\n"+jobsText(t, list, "wide", 80))
}

func TestPsFormats(t *testing.T) {
	list := sampleJobs()
	rows, err := csv.NewReader(strings.NewReader(jobsText(t, list, "csv", 0))).ReadAll()
	if err != nil || len(rows) != len(list)+1 || !slices.Equal(rows[0], jobColumns) {
		t.Fatalf("%v, %v", rows, err)
	}
	cell := func(row int, name string) string { return rows[row][slices.Index(jobColumns, name)] }
	if cell(1, "gpus") != "1-4" || cell(1, "gpu_s") != "14400" || cell(1, "step") != "4200" || cell(8, "exit_signal") != "SIGKILL" || cell(8, "gpu_s") != "1800" || cell(1, "submitted") != "2026-03-04T09:00:00+01:00" || cell(5, "ended") != "" {
		t.Errorf("%q", rows)
	}
	var back []api.Job
	if err := json.Unmarshal([]byte(jobsText(t, list, "json", 0)), &back); err != nil || len(back) != len(list) || back[0].GPUs != list[0].GPUs {
		t.Errorf("%+v, %v", back, err)
	}
	if text := jobsText(t, nil, "json", 0); text != "[]\n" {
		t.Errorf("%q", text)
	}
	if text := jobsText(t, list[:2], "name", 0); text != "3\n5\n" {
		t.Errorf("%q", text)
	}
}

// TestPsAsks: flags become a query.
func TestPsAsks(t *testing.T) {
	for _, c := range []struct {
		args string
		want api.Query
	}{
		{"", api.Query{}},
		{"-a", api.Query{All: true}},
		{"3 9", api.Query{IDs: []string{"3", "9"}, All: true}},
		{"--state running,waiting --state HELD", api.Query{States: []api.State{api.Running, api.Waiting, api.Held}}},
		{"--state PD", api.Query{States: []api.State{api.Held, api.Waiting}}},
		{"--state failed", api.Query{States: []api.State{api.Failed}, All: true}},
		{"--me", api.Query{Users: []string{"ann"}}},
		{"-u bob,eve --tenant nlp --name bert --limit 5", api.Query{Users: []string{"bob", "eve"}, Tenant: "nlp", Name: "bert", Limit: 5}},
	} {
		f := busy()
		liveWorks(t, f, append([]string{"ps"}, strings.Fields(c.args)...)...)
		if got := fmt.Sprintf("%+v", f.queries[0]); got != fmt.Sprintf("%+v", c.want) {
			t.Errorf("norn ps %s: %s, want %+v", c.args, got, c.want)
		}
	}
	for args, want := range map[string]string{
		"--state runing": "--state runing: write one of active, ended, held, waiting, assigned, running, stopping, done, failed, cancelled; did you mean running?",
		"--limit -1":     "--limit -1: write 0 or more",
		"-o yaml":        "--output yaml: write one of text, json, wide, csv, name",
	} {
		if out, errOut, code := liveIn(t.Context(), shellOf(busy()), append([]string{"ps"}, strings.Fields(args)...)...); code != exitUsage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("norn ps %s: exit code %d, %q, %q", args, code, out, errOut)
		}
	}
}

// TestPsUnknown: a job that is not there is an error behind those that are.
func TestPsUnknown(t *testing.T) {
	out, errOut, code := liveIn(t.Context(), shellOf(busy()), "ps", "3", "99", "-o", "name")
	if code != exitFailed || out != "3\n" || errOut != "norn: there is no job 99\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
	if out, _ := liveWorks(t, busy(), "ps", "9", "-o", "name"); out != "9_2\n" {
		t.Errorf("an array by its number: %q", out)
	}
	out, errOut = liveWorks(t, &fake{}, "ps")
	if strings.Count(out, "\n") != 1 || !strings.Contains(errOut, "no job waits or runs") {
		t.Errorf("%q, %q", out, errOut)
	}
}

// TestPsWatch writes the list again when it has changed, and only then.
func TestPsWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{tell: make(chan api.Event, 1)}
	f.onLook = func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.list = []api.Job{{ID: "1", State: api.Waiting}}
		if n >= 3 {
			f.list = append(f.list, api.Job{ID: "2", State: api.Waiting})
		}
		select {
		case f.tell <- (api.Event{}):
		default: // it has been told, and looks anyway
		}
		if n == 4 {
			cancel()
		}
	}
	out, _, code := liveIn(ctx, shellOf(f), "ps", "--watch", "-o", "name")
	if code != exitInterrupted || out != "1\n1\n2\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// TestGrid cuts, drops and measures.
func TestGrid(t *testing.T) {
	g := &grid.Table{Cols: []grid.Column{{Title: "A"}, {Title: "LONG", Least: 4}, {Title: "EMPTY", Bare: true}, {Title: "N", Right: true, Rank: 1}}}
	g.Add("1", "some text", "", "5")
	g.Add("22", "日本語です", "", "123")
	for width, want := range map[int]string{
		0:  "A   LONG          N\n1   some text     5\n22  日本語です  123",
		18: "A   LONG         N\n1   some text    5\n22  日本語で…  123",
		13: "A   LONG    N\n1   som…    5\n22  日…   123",
		12: "A   LONG\n1   some te…\n22  日本語…",
		4:  "A   LONG\n1   som…\n22  日…",
	} {
		if got := strings.Join(g.Lines(width), "\n"); got != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, got, want)
		}
	}
	for text, want := range map[string]string{"a\x1b[31mb": "a?[31mb", "a\nb\tc": "a b c", "é": "é", "\u202eabc": "?abc", "a\xff\xfeb": "a?b"} {
		if got := grid.Clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]int{"abc": 3, "日本": 4, "e\u0301": 1, "█░…": 3, "": 0} {
		if got := grid.Cells(text); got != want {
			t.Errorf("%q: %d cells, want %d", text, got, want)
		}
	}
}

// TestJobTexts are the words for parts of a job.
func TestJobTexts(t *testing.T) {
	for want, names := range map[string][]string{"gpu0-3,gpu6": {"gpu0", "gpu1", "gpu2", "gpu3", "gpu6"}, "gpu9-10": {"gpu9", "gpu10"}, "a,b": {"a", "b"}, "": nil, "slot1,slot0": {"slot1", "slot0"}} {
		if got := devices(names); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "now", 40 * time.Second: "in 40s, at 12:00:40", 42 * time.Minute: "in 42 min, at 12:42", 200 * time.Minute: "in 3 h 20 min, at 15:20",
		12 * time.Hour: "in 12 h, at Thu 00:00", 52 * time.Hour: "in 2 d 4 h, at Fri 16:00", 240 * time.Hour: "in 10 d, at Mar 14 12:00", 24 * 300 * time.Hour: "in 300 d, at Dec 29 12:00"} {
		if got := soon(noon.Add(d), noon); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for b, want := range map[api.Bytes]string{0: "0", 1 << 10: "1K", 1536 << 20: "1.5G", 141 << 30: "141G", 10 << 40: "10T", 999: "999", 80 << 20: "80M"} {
		if got := memory(b); got != want {
			t.Errorf("%d: %q, want %q", b, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0%", 0.424: "42%", 0.999: "99%", 1: "100%"} {
		if got := percent(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// BenchmarkPs writes a list of ten thousand jobs.
func BenchmarkPs(b *testing.B) {
	list := manyJobs(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if err := writeJobs(io.Discard, list, "text", noon, 120); err != nil {
			b.Fatal(err)
		}
	}
}
