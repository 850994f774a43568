package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

func sampleWhy() api.Why {
	return api.Why{
		Job: sampleJobs()[4], Reason: "needs 4 GPUs; 1 is free",
		Frees:    []string{"when job 3 (2 GPUs) has ended, expected at 14:00", "if job 3 were preempted, which tiresias does at the end of its quantum"},
		Expected: noon.Add(2 * time.Hour), Ahead: []string{"4", "6"}, Holders: []string{"job 3 of ann: 2 GPUs until 14:00", "job 5 of bob: 1 GPU, late by 10 min"},
		Stop: "it is told by SIGTERM and has 2 minutes to write a checkpoint; nothing is lost", Isolation: []string{"16 CPU cores and 64 GiB by cgroups v2", "not: device files"},
		Life: []string{"11:48:00  submitted by ann"}, Policy: "tiresias(limits=3600,36000)",
	}
}

// TestWhy tells of a job that waits, of one that runs, and of one that failed.
func TestWhy(t *testing.T) {
	running, failed := api.Why{Job: sampleJobs()[0], Reason: "it runs", Stop: "it writes a checkpoint"}, api.Why{Job: sampleJobs()[7], Reason: "it failed 3 times"}
	unknown := api.Why{Job: sampleJobs()[5], Reason: "held by its user", Unknown: "it is held"}
	var b strings.Builder
	for _, w := range []api.Why{sampleWhy(), running, failed, unknown} {
		if err := writeWhy(&b, w, noon, 0); err != nil {
			t.Fatal(err)
		}
		b.WriteString("--\n")
	}
	if err := writeWhy(&b, sampleWhy(), noon, 50); err != nil {
		t.Fatal(err)
	}
	golden(t, "why.txt", b.String())

	f := busy()
	f.why = sampleWhy()
	var back api.Why
	out, _ := liveWorks(t, f, "why", "8", "--json")
	if err := json.Unmarshal([]byte(out), &back); err != nil || back.Reason != f.why.Reason || !back.Expected.Equal(f.why.Expected) {
		t.Errorf("%s, %v", out, err)
	}
	f.refuse["why 99"] = api.Refuse(api.Unknown, "there is no job 99")
	if out, errOut, code := liveIn(t.Context(), shellOf(f), "why", "99"); code != exitFailed || out != "" || errOut != "norn: there is no job 99\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
}

// TestWhyPace tells of a job that others slow down, and of what it leaves to them.
func TestWhyPace(t *testing.T) {
	for _, c := range []struct {
		speed    float64
		throttle int
		want     string
	}{
		{0, 0, ""},
		{0.6249, 0, "  runs at 0.625 times the speed of its estimate\n"},
		{0.5, 255, "  runs at 0.5 times the speed of its estimate; leaves its devices to other jobs for 25.5% of the time\n"},
		{0, 1000, "  stands still: other jobs on its devices have them for themselves\n"},
	} {
		w := api.Why{Job: sampleJobs()[0], Reason: "it runs"}
		w.Job.Speed, w.Job.Throttle = c.speed, c.throttle
		var b strings.Builder
		if err := writeWhy(&b, w, noon, 0); err != nil {
			t.Fatal(err)
		}
		if _, text, _ := strings.Cut(b.String(), "it runs\n"); !strings.HasPrefix(text, c.want+"\n") && !strings.HasPrefix(text, c.want+"Asks") {
			t.Errorf("%+v: %s", c, text)
		}
	}
}

// TestWhyDeadline tells by when a job should end, and by how much it is late.
func TestWhyDeadline(t *testing.T) {
	at := func(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }
	for _, c := range []struct {
		ended, expected, deadline time.Time
		soft                      bool
		want                      string
	}{
		{},
		{deadline: at(3), want: "deadline " + minute(at(3))},
		{expected: at(2), deadline: at(3), soft: true, want: "expected end " + minute(at(2)) + ", deadline " + minute(at(3)) + " (soft)"},
		{expected: at(3.5), deadline: at(3), want: "expected end " + minute(at(3.5)) + ", deadline " + minute(at(3)) + ": 30m late"},
		{ended: at(1), expected: at(9), deadline: at(3), want: "ended " + minute(at(1)) + ", deadline " + minute(at(3))},
	} {
		if got := deadlineText(api.Job{Ended: c.ended, ExpectEnd: c.expected, Deadl: c.deadline, Soft: c.soft}); got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
}

// TestActs: verbs are carried out on the jobs that are named, or on the caller's
// own that flags select.
func TestActs(t *testing.T) {
	for _, c := range []struct {
		line string
		asks []string
		out  string
	}{
		{"cancel 3 9", []string{"cancel 3", "cancel 9"}, "cancelled job 3\ncancelled job 9\n"},
		{"hold 8", []string{"hold 8"}, "held job 8\n"},
		{"release 9_2 -q", []string{"release 9_2"}, ""},
		{"requeue 3", []string{"requeue 3"}, "requeued job 3\n"},
		{"cancel --all", []string{"cancel 3", "cancel 8"}, "cancelled job 3\ncancelled job 8\n"},
		{"cancel --everyone -q", []string{"cancel 3", "cancel 5", "cancel 6", "cancel 7", "cancel 8", "cancel 9_2"}, ""},
		{"cancel --user bob --state waiting,held", []string{"cancel 9_2"}, "cancelled job 9_2\n"},
		{"cancel --name bert-large", []string{"cancel 3"}, "cancelled job 3\n"},
		{"requeue --user bob", []string{"requeue 5"}, "requeued job 5\n"},
		{"hold --all", []string{"hold 8"}, "held job 8\n"},
		{"release --all", nil, ""},
		{"resize 3 4", []string{"resize 3 4"}, "resized job 3 to 4 GPUs\n"},
		{"resize 3 1", []string{"resize 3 1"}, "resized job 3 to 1 GPU\n"},
		{"drain gpu0 gpu1 --why loud", []string{"drain {Devices:[gpu0 gpu1] Where: Undo:false Why:loud}"}, "gpu0-1 take no new work; running jobs go on\n"},
		{"drain", []string{"drain {Devices:[] Where: Undo:false Why:}"}, "the machine takes no new work; running jobs go on\n"},
		{"drain a-7 a-8 a-9", []string{"drain {Devices:[a-7 a-8 a-9] Where: Undo:false Why:}"}, "a-7 to a-9 take no new work; running jobs go on\n"},
		{"drain n08 n09 n10", []string{"drain {Devices:[n08 n09 n10] Where: Undo:false Why:}"}, "n08-10 take no new work; running jobs go on\n"},
		{"drain --where rack=r7", []string{"drain {Devices:[] Where:rack=r7 Undo:false Why:}"}, "nodes with rack=r7 take no new work; running jobs go on\n"},
		{"reclaim gpu0 gpu1 --why peak", []string{`reclaim ["gpu0" "gpu1"] "" 0 lend false within its own time: peak`}, "jobs leave gpu0-1 in their own time\n"},
		{"reclaim gpu0 --notice 10m", []string{`reclaim ["gpu0"] "" 0 lend false within 10m0s: `}, "jobs leave gpu0 within 10m\n"},
		{"reclaim --now", []string{`reclaim [] "" 0 lend false within 0s: `}, "jobs on the machine are killed\n"},
		{"reclaim --where lender=x --notice 90", []string{`reclaim [] "lender=x" 0 lend false within 1m30s: `}, "jobs leave a-7 to a-8 within 1m30s\n"},
		{"reclaim --count 2 --now", []string{`reclaim [] "" 2 lend false within 0s: `}, "jobs on a-7 to a-8 are killed\n"},
		{"lend --count 2", []string{`reclaim [] "" 2 lend true within its own time: `}, "a-7 to a-8 take new work again\n"},
		{"lend gpu0 gpu1", []string{`reclaim ["gpu0" "gpu1"] "" 0 lend true within its own time: `}, "gpu0-1 take new work again\n"},
		{"lend", []string{`reclaim [] "" 0 lend true within its own time: `}, "the machine takes new work again\n"},
		{"undrain gpu0", []string{"drain {Devices:[gpu0] Where: Undo:true Why:}"}, "gpu0 takes new work again\n"},
		{"use fifo(mode=easy)", []string{"use fifo(mode=easy)", "status"}, "the policy is fifo(mode=easy)\n"},
	} {
		f := busy()
		out, _ := liveWorks(t, f, strings.Fields(c.line)...)
		if out != c.out || !slices.Equal(f.asked, c.asks) {
			t.Errorf("norn %s: %q, %q; want %q, %q", c.line, out, f.asked, c.out, c.asks)
		}
	}
	for line, want := range map[string]string{
		"cancel":                 "name the jobs: by number, or by flags such as --name, --state or --all",
		"cancel 3 --all":         "name jobs or select them with flags, not both",
		"cancel --state sleepin": "--state sleepin: write one of",
		"resize 3 many":          `"many" is not a number of GPUs: write norn resize 3 2`,
		"resize 3 nan":           `"nan" is not a number of GPUs`,
		"resize 3":               "accepts 2 arg(s), received 1; the usage is norn resize JOB GPUS",
		"use":                    "accepts 1 arg(s), received 0",
		"logs 3 --run -1":        "--run -1: runs are counted from 1",
		"logs 3 --tail -2":       "--tail -2: write a number of lines, or -1 for all",
	} {
		f := busy()
		if out, errOut, code := liveIn(t.Context(), shellOf(f), strings.Fields(line)...); code != exitUsage || out != "" || !strings.Contains(errOut, want) || len(f.asked) > 0 {
			t.Errorf("norn %s: exit code %d, %q, %q, %q", line, code, out, errOut, f.asked)
		}
	}
}

// TestActsFail: a job that it cannot be done to does not keep the others from it,
// and each is told.
func TestActsFail(t *testing.T) {
	f := busy()
	f.refuse["cancel 1"] = api.Refuse(api.Conflict, "job 1 has ended")
	f.refuse["cancel 5"] = api.Refuse(api.Denied, "job 5 is bob's")
	out, errOut, code := liveIn(t.Context(), shellOf(f), "cancel", "1", "3", "5", "8")
	if code != exitFailed || out != "cancelled job 3\ncancelled job 8\n" || errOut != "norn: job 1 has ended\nnorn: job 5 is bob's\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
	var list []deedJSON
	out, _, code = liveIn(t.Context(), shellOf(f), "cancel", "1", "3", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitFailed || !slices.Equal(list, []deedJSON{{"1", false, "job 1 has ended"}, {"3", true, ""}}) {
		t.Errorf("exit code %d, %s, %v", code, out, err)
	}
	ended := busy() // between the list and the order
	ended.refuse["cancel 3"] = api.Refuse(api.Conflict, "job 3 has ended")
	if _, errOut, code := liveIn(t.Context(), shellOf(ended), "cancel", "--all"); code != 0 || errOut != "norn: job 3 has ended\n" {
		t.Errorf("of the jobs that flags select one has ended: exit code %d, %q", code, errOut)
	}
	f.refuse["drain {Devices:[] Where: Undo:false Why:}"] = api.Refuse(api.Denied, "only an operator drains")
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "drain"); code != exitFailed || errOut != "norn: only an operator drains\n" {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestLogs shows what a run wrote, and goes on where the connection broke.
func TestLogs(t *testing.T) {
	f := busy()
	f.output["3/0"], f.output["2/2"] = "last\n", "second\n"
	if out, _ := liveWorks(t, f, "logs", "3", "--tail", "5"); out != "last\n" || !slices.Equal(f.asked, []string{"logs 3 {Run:0 Tail:5 Follow:false}"}) {
		t.Errorf("%q, %q", out, f.asked)
	}
	if out, _ := liveWorks(t, f, "logs", "2", "--run", "2", "-f"); out != "second\n" {
		t.Errorf("%q", out)
	}
	f.output["2/3"] = "third\n"
	if out, _ := liveWorks(t, f, "logs", "2", "-f", "-n", "1"); out != "third\n" {
		t.Errorf("%q", out)
	}
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "logs", "4", "-f"); code != exitFailed || errOut != "norn: job 4 has never run: was cancelled\n" {
		t.Errorf("exit code %d, %q", code, errOut)
	}
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "logs", "99"); code != exitFailed || errOut != "norn: job 99 has no run 0\n" {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestHistory lists what has ended, and adds up what it used.
func TestHistory(t *testing.T) {
	f := busy()
	var b strings.Builder
	for _, line := range []string{"history", "history --since 7d", "history --since 7d --by user", "history --since 7d --state failed", "history --since 7d --limit 1", "history --since 7d --by tenant -o csv", "history --since 1h"} {
		out, _ := liveWorks(t, f, strings.Fields(line)...)
		b.WriteString("norn " + line + "\n" + out + "\n")
	}
	golden(t, "history.txt", b.String())
	q := f.queries[0]
	if !q.All || !slices.Equal(q.States, endedStates) || !q.Since.Equal(noon.Add(-24*time.Hour)) || !q.Until.IsZero() {
		t.Errorf("%+v", q)
	}
	var back struct {
		Jobs   []api.Job
		Totals totals
	}
	out, _ := liveWorks(t, f, "history", "--since", "7d", "--json")
	if err := json.Unmarshal([]byte(out), &back); err != nil || len(back.Jobs) != 3 || back.Jobs[0].ID != "4" || back.Totals.Jobs != 3 || back.Totals.GPUHours != 2.5 || back.Totals.MeanRan != 2700 {
		t.Errorf("%+v, %v", back, err)
	}
	if out, _ := liveWorks(t, f, "history", "4"); !strings.Contains(out, "third") || f.queries[len(f.queries)-1].Since != (time.Time{}) {
		t.Errorf("%s", out) // a job that is named may have ended long ago
	}
	for line, want := range map[string]string{
		"history --since soon":                "--since: \"soon\" is not a moment",
		"history --since 1h --until 2h":       "--until: 2h is not after --since 1h",
		"history --by color":                  `--by: "color": write user, tenant, name or state`,
		"history --state running":             "--state: running jobs have not ended: norn ps lists them",
		"history --limit -1":                  "--limit: -1: write 0 or more",
		"history --since 2026-03-01 -o wide":  "--output wide: write one of text, json, csv",
		"history --until 2026-03-32 -o json":  "--until: ",
		"history --since 7d --state finished": "--state finished: write one of",
	} {
		if out, errOut, code := liveIn(t.Context(), shellOf(f), strings.Fields(line)...); code != exitUsage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("norn %s: exit code %d, %q, %q", line, code, out, errOut)
		}
	}
}

func TestStatus(t *testing.T) {
	f := busy()
	out, _ := liveWorks(t, f, "status")
	f.node.Health, f.node.Note, f.node.Devices, f.status.Tenants = "drained", "maintenance", nil, nil
	bare, _ := liveWorks(t, f, "info")
	golden(t, "status.txt", out+"--\n"+bare)
	var back struct {
		Status api.Status
		Node   api.Node
	}
	out, _ = liveWorks(t, f, "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &back); err != nil || back.Status.Policy != f.status.Policy || back.Node.Note != "maintenance" {
		t.Errorf("%s, %v", out, err)
	}
}

// TestEvents tells what is remembered and ends, also when the last event is about
// the job of somebody else; or goes on.
func TestEvents(t *testing.T) {
	f := busy()
	f.events = []api.Event{
		{Seq: 1, Time: noon.Add(-time.Minute), Kind: "submit", Job: "17", User: "ann", Text: "job 17 is submitted"},
		{Seq: 2, Time: noon, Kind: "drain", User: "root", Text: "gpu3 is drained:\x1b[2J loud"},
		{Seq: 3, Time: noon, Kind: "start", Job: "18_2", Text: "starts on gpu0"},
	}
	const first = "2026-03-04 11:59:00  submit   job 17     job 17 is submitted\n"
	const last = "2026-03-04 12:00:00  start    job 18_2   starts on gpu0\n"
	if out, _ := liveWorks(t, f, "events"); out != first+"2026-03-04 12:00:00  drain    root       gpu3 is drained:?[2J loud\n"+last {
		t.Errorf("%s", out)
	}
	if out, _ := liveWorks(t, f, "events", "18"); out != last {
		t.Errorf("%s", out)
	}
	f.status.Events = 9
	if out, _ := liveWorks(t, f, "events", "--since", "3"); out != last {
		t.Errorf("%s", out)
	}
	if out, _ := liveWorks(t, f, "events", "--since", "10"); out != "" {
		t.Errorf("%s", out)
	}
	out, _ := liveWorks(t, f, "events", "-o", "json")
	var e api.Event
	if line, _, _ := strings.Cut(out, "\n"); json.Unmarshal([]byte(line), &e) != nil || e.Job != "17" || strings.Count(out, "\n") != 3 {
		t.Errorf("%s", out)
	}
	path := filepath.Join(t.TempDir(), "events.log")
	liveWorks(t, f, "events", "--log", path)
	if text, err := os.ReadFile(path); err != nil || string(text) != "the log" {
		t.Errorf("%q, %v", text, err)
	}
	f.refuse["log"] = api.Refuse(api.Denied, "only an operator may have the log")
	other := filepath.Join(t.TempDir(), "events.log")
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "events", "--log", other); code != exitFailed || errOut != "norn: only an operator may have the log\n" {
		t.Errorf("exit code %d, %q", code, errOut)
	}
	if left, _ := filepath.Glob(other + "*"); len(left) > 0 {
		t.Errorf("%q are left of a log that could not be copied", left)
	}
}

var (
	codeSpan  = regexp.MustCompile("`(norn [^`]+)`")
	codeBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

// TestLivePages: the commands that the pages show exist, with their flags.
func TestLivePages(t *testing.T) {
	seen := 0
	for _, page := range []string{"live.md", "jobs.md", "slurm.md", "plan.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			lines = append(lines, m[1])
		}
		for _, m := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.Split(m[1], "\n")...)
		}
		for _, line := range lines {
			words, err := shellWords(strings.ReplaceAll(line, " ...", ""))
			if len(words) < 2 || words[0] != "norn" || words[1] == "completion" { // which is none of these verbs
				continue
			}
			found, rest, ferr := root().Find(words[1:])
			if err != nil || ferr != nil || !found.HasParent() {
				t.Errorf("%s: %q: %v, %v", page, line, err, ferr)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", page, line, err)
			}
			seen++
		}
	}
	if seen < 80 {
		t.Errorf("only %d commands were found: is the pattern still right?", seen)
	}
}
