package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/experiment/whatif"
)

// recorder is a Norn that has an event log.
type recorder struct {
	*fake
	log string
	err error // after the log
}

func (r *recorder) EventLog(_ context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, r.log); err != nil {
		return err
	}
	return r.err
}

// plan runs norn plan beside a Norn with a log.
func plan(t *testing.T, r *recorder, args ...string) (out, errOut string, code int) {
	t.Helper()
	s := shellOf(&fake{})
	s.connect = func(*shell, where) (daemon, error) { return r, nil }
	return liveIn(t.Context(), s, append([]string{"plan"}, args...)...)
}

func plans(t *testing.T, r *recorder, args ...string) (out, errOut string) {
	t.Helper()
	out, errOut, code := plan(t, r, args...)
	if code != 0 {
		t.Fatalf("norn plan %s: exit code %d, %s", strings.Join(args, " "), code, errOut)
	}
	return out, errOut
}

// first and second are the log of a machine of two GPUs that was started anew, and
// was given another policy then. Jobs 1 and 4 are long and came before the short
// ones; 5 was cancelled before it ran, 6 was held when it came.
const first = `{"norn":"eventlog","version":1,"world":"local","policy":"fifo","estimates":"[user]","cluster":"box","origin":"2026-03-04T09:00:00Z","types":[{"name":"A100"}],"tenants":[{"name":"nlp","guarantee":1},{"name":"vision"}]}
{"t":0,"e":"node-add","name":"box","gpus":[[0,2]]}
{"t":10,"e":"submit","j":0,"spec":{"job":"1","name":"bert","submit":10,"gpus":2,"user":"ann","tenant":"nlp","estimate":3600},"est":3600}
{"t":10,"e":"start","j":0,"on":[{"n":0,"d":[0,1]}]}
{"t":20,"e":"submit","j":1,"spec":{"job":"2","name":"eval","submit":20,"gpus":1,"user":"bob","tenant":"vision","estimate":60},"est":60}
{"t":20,"e":"wait","j":1,"why":"need-gpus","need":1}
{"t":30,"e":"submit","j":2,"spec":{"job":"3","name":"eval","submit":30,"gpus":1,"user":"bob","tenant":"vision","estimate":60},"est":60}
{"t":30,"e":"wait","j":2,"why":"behind","for":1}
{"t":40,"e":"submit","j":3,"spec":{"job":"5","name":"lost","submit":40,"gpus":2,"user":"ann","tenant":"nlp"}}
{"t":40,"e":"wait","j":3,"why":"behind","for":1}
{"t":50,"e":"submit","j":4,"spec":{"job":"6","name":"late","submit":50,"gpus":1,"user":"ann","tenant":"nlp","estimate":30},"est":30}
{"t":50,"e":"hold","j":4,"why":"on-hold","text":"waits for the end of job 2"}
`

const second = `{"norn":"eventlog","version":1,"world":"local","policy":"fifo","settings":["mode=skip"],"estimates":"[user]","cluster":"box","origin":"2026-03-04T09:00:00Z","begins":600,"types":[{"name":"A100"}],"tenants":[{"name":"nlp","guarantee":1},{"name":"vision"}]}
{"t":600,"e":"node-add","name":"box","gpus":[[0,2]]}
{"t":600,"e":"carry","j":0,"spec":{"job":"1","name":"bert","submit":10,"gpus":2,"user":"ann","tenant":"nlp","estimate":3600},"est":3600,"on":[{"n":0,"d":[0,1]}],"record":{"phase":"running","since":10,"first_start":10,"tasks":2,"gpus":2,"ready":10,"rate":1,"starts":1}}
{"t":600,"e":"carry","j":1,"spec":{"job":"2","name":"eval","submit":20,"gpus":1,"user":"bob","tenant":"vision","estimate":60},"est":60,"why":"need-gpus","need":1,"record":{"phase":"waiting","since":20}}
{"t":600,"e":"carry","j":2,"spec":{"job":"3","name":"eval","submit":30,"gpus":1,"user":"bob","tenant":"vision","estimate":60},"est":60,"why":"behind","for":1,"record":{"phase":"waiting","since":30}}
{"t":600,"e":"carry","j":3,"spec":{"job":"5","name":"lost","submit":40,"gpus":2,"user":"ann","tenant":"nlp"},"why":"behind","for":1,"record":{"phase":"waiting","since":40}}
{"t":600,"e":"carry","j":4,"spec":{"job":"6","name":"late","submit":50,"gpus":1,"user":"ann","tenant":"nlp","estimate":30},"est":30,"why":"on-hold","text":"waits for the end of job 2","record":{"phase":"held","since":50}}
{"t":700,"e":"cancel","j":3}
{"t":3610,"e":"end","j":0,"outcome":"done"}
{"t":3610,"e":"start","j":1,"on":[{"n":0,"d":[0]}],"delay":2}
{"t":3610,"e":"start","j":2,"on":[{"n":0,"d":[1]}],"delay":4}
{"t":3672,"e":"end","j":1,"outcome":"done"}
{"t":3672,"e":"free","j":4}
{"t":3672,"e":"start","j":4,"on":[{"n":0,"d":[0]}],"delay":3}
{"t":3674,"e":"end","j":2,"outcome":"failed"}
{"t":3700,"e":"submit","j":5,"spec":{"job":"7","name":"next","submit":3700,"gpus":2,"user":"bob","tenant":"vision","estimate":500},"est":500}
{"t":3700,"e":"wait","j":5,"why":"need-gpus","need":2,"have":1}
{"t":3705,"e":"end","j":4,"outcome":"done"}
{"t":3705,"e":"start","j":5,"on":[{"n":0,"d":[0,1]}],"delay":3}
{"t":3800,"e":"estimate","j":5,"est":400}
`

// spans are the figures of some spans, in seconds.
type spans struct{ Mean, Median, P90 float64 }

// planRead is a plan as another program reads it.
type planRead struct {
	Jobs    whatif.JobsJSON    `json:"jobs"`
	InForce []string           `json:"in_force"`
	From    time.Time          `json:"from"`
	FromS   float64            `json:"from_s"`
	ToS     float64            `json:"to_s"`
	Check   *whatif.CheckJSON  `json:"check"`
	Tenants []whatif.GroupJSON `json:"tenants"`
	Costs   whatif.CostsJSON   `json:"costs_s"`
	Runs    []struct {
		Kind        whatif.Kind      `json:"kind"`
		JCT         spans            `json:"jct_s"`
		Wait        spans            `json:"wait_s"`
		Makespan    float64          `json:"makespan_s"`
		Preemptions int              `json:"preemptions"`
		Utilisation float64          `json:"gpu_utilisation"`
		Change      float64          `json:"jct_change"`
		Hours       float64          `json:"job_hours_change"`
		Gain        []whatif.JobJSON `json:"gain_most"`
		Lose        []whatif.JobJSON `json:"lose_most"`
	} `json:"runs"`
}

func decoded(t *testing.T, text string) planRead {
	t.Helper()
	var p planRead
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return p
}

// TestPlan tells what another policy would have made of two logs.
func TestPlan(t *testing.T) {
	out, errOut := plans(t, &recorder{log: first + second}, "--policy", "fifo(mode=skip),srtf")
	golden(t, "plan.txt", out)
	if !strings.HasPrefix(errOut, "norn: srtf: nothing was known of the run time of 1 job") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("%s", errOut)
	}
	out, _ = plans(t, &recorder{log: first + second}, "--add-devices", "1", "-q")
	golden(t, "plan-devices.txt", out)
}

// TestPlanNodes: with a second node like the first one, the short jobs need not wait for the
// long one.
func TestPlanNodes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	out, _ := plans(t, &recorder{log: first + second}, "--add-nodes", "1x2:A100", "--json", "--out", dir, "-q")
	p := decoded(t, out)
	last := p.Runs[len(p.Runs)-1]
	if last.Kind != whatif.Tried || last.Wait.Mean > 50 || p.Runs[0].Wait.Mean < 1000 {
		t.Errorf("%s: jobs wait %v s, and waited %v s", last.Kind, last.Wait.Mean, p.Runs[0].Wait.Mean)
	}
	if text, _ := plans(t, &recorder{log: first + second}, "--add-nodes", "1x2:A100", "-q"); !strings.Contains(text, "\nfifo(mode=skip), +1x2:A100 ") {
		t.Errorf("%s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
	for want, args := range map[string][]string{
		"go together, and not with":     {"--add-nodes", "1x2", "--devices", "3"},
		"write nodes, such as 4x8:H100": {"--remove-nodes", ""},
		"without box there is no node":  {"--remove-nodes", "box"},
		"only 1 node such as these":     {"--remove-nodes", "2x2:A100"},
	} {
		if _, errOut, code := plan(t, &recorder{log: first + second}, args...); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit code %d, %s", args, code, errOut)
		}
	}
}

// TestPlanJSON: figures that can be worked out by hand.
func TestPlanJSON(t *testing.T) {
	out, _ := plans(t, &recorder{log: first + second}, "--policy", "srtf", "--json")
	p := decoded(t, out)
	if want := (whatif.JobsJSON{Submitted: 6, Compared: 4, NotEnded: 1}); p.Jobs != want {
		t.Errorf("%+v", p.Jobs)
	}
	if !slices.Equal(p.InForce, []string{"fifo", "fifo(mode=skip)"}) || p.Costs.Start != 3 || p.Costs.Restore != 3 || p.From.Unix() != 1772614800 {
		t.Errorf("%+v", p)
	}
	if len(p.Runs) != 3 || p.Runs[0].Kind != whatif.Real || p.Runs[1].Kind != whatif.Checked || p.Runs[2].Kind != whatif.Tried {
		t.Fatalf("%+v", p.Runs)
	}
	// Reality: 3600, 3652, 3644 and 33 s. Under SRTF job 1 makes room for the short
	// ones. At 20 s job 2 takes one GPU, until 83 s, and job 3 the other one from
	// 30 s to 93 s. Then job 1 starts again. It needs 3 s and the rest of its 3600
	// s, of which it has done 7. When job 6 is released, 17 s of these are left,
	// which is less than its own 30.
	real, srtf := p.Runs[0], p.Runs[2]
	if got := real.JCT.Mean; got != (3600+3652+3644+33)/4. {
		t.Errorf("mean JCT %v", got)
	}
	one := 93 + 3 + 3600 - 7 - 10.
	if got, want := srtf.JCT.Mean, (one+63+63+50)/4; got != want {
		t.Errorf("mean JCT %v under SRTF, want %v", got, want)
	}
	if change := (one+63+63+50)/(3600+3652+3644+33) - 1; abs(srtf.Change-change) > 1e-9 || abs(srtf.Hours-(one+63+63+50-3600-3652-3644-33)/3600) > 1e-9 || srtf.Preemptions != 1 {
		t.Errorf("%+v", srtf)
	}
	if g := srtf.Gain; len(g) != 2 || g[0].Job != "2" || g[0].Was != 3652 || g[0].Would != 63 || g[1].Job != "3" {
		t.Errorf("%+v", g)
	}
	if l := srtf.Lose; len(l) != 2 || l[0].Job != "1" || l[0].Would != one || l[1].Job != "6" {
		t.Errorf("%+v", l)
	}
	if len(p.Tenants) != 2 || p.Tenants[1].Name != "vision" || *p.Tenants[1].JCT[0] != 3648 || *p.Tenants[1].JCT[2] != 63 {
		t.Errorf("%+v", p.Tenants)
	}
}

func abs(v float64) float64 { return max(v, -v) }

// TestPlanOfSimulation plans with the log of a simulation: what was in force gives
// what it gave, and another policy what norn sim gives.
func TestPlanOfSimulation(t *testing.T) {
	dir := t.TempDir()
	trace := file(t, "jobs.csv", jobs)
	cost := "--cost=start=20s,checkpoint=10s,restore=20s"
	works(t, "sim", trace, "--cluster", "2x8", "--policy", "fifo,srtf", cost, "--out", dir)
	out, _ := works(t, "plan", "--log", filepath.Join(dir, "fifo"), "--policy", "srtf", cost, "--json")
	p := decoded(t, out)
	if p.Check == nil || p.Check.Change != 0 || p.Check.HalfWithin != 0 || p.Runs[1].Utilisation != p.Runs[0].Utilisation {
		t.Errorf("%+v, %+v", p.Check, p.Runs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "srtf", "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		JCT         spans   `json:"jct_s"`
		Wait        spans   `json:"wait_s"`
		Makespan    float64 `json:"makespan_s"`
		Utilisation float64 `json:"gpu_utilisation"`
		Preemptions int     `json:"preemptions"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	r := p.Runs[2]
	if r.JCT != s.JCT || r.Wait != s.Wait || r.Makespan != s.Makespan || r.Utilisation != s.Utilisation || r.Preemptions != s.Preemptions {
		t.Errorf("%+v\nnorn sim: %s", r, text)
	}
	if out, _, code := norn(t, "plan", "--log", dir); code != exitFailed {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// TestPlanRests: a plan marks policies that knew true run times or lacked what they live
// on, once beneath the table, or on standard error beside CSV.
func TestPlanRests(t *testing.T) {
	const lack = "no job is elastic; it acts as srtf but for"
	out, errOut := plans(t, &recorder{log: first + second}, "--policy", "afs,las", "--estimates", "oracle")
	for _, want := range []string{"\nafs *! ", "\n* knew the true run times (--estimates oracle)\n", "\n! afs: " + lack + " the costs of transitions and the choice of GPUs\n"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("not once %q in\n%s", want, out)
		}
	}
	if strings.Contains(errOut, lack) {
		t.Errorf("%s", errOut)
	}
	out, errOut = plans(t, &recorder{log: first + second}, "--policy", "afs", "-o", "csv")
	if strings.Count(out, ",believed,no job is elastic; ") != 1 || strings.Count(errOut, "norn: afs: "+lack) != 1 {
		t.Errorf("%s%s", out, errOut)
	}
}

// TestPlanSources reads the log from a file, from standard input and from a state
// folder whose older log is packed: all give the same.
func TestPlanSources(t *testing.T) {
	want, _ := plans(t, &recorder{log: first + second}, "--policy", "srtf", "-o", "csv", "-q")
	rows, err := csv.NewReader(strings.NewReader(want)).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][0] != whatif.AsItWas || rows[3][0] != "srtf" || len(rows[0]) != 16 {
		t.Fatalf("%v, %s", err, want)
	}
	none := &recorder{err: errors.New("nobody should ask")}
	if out, _ := plans(t, none, "--policy", "srtf", "-o", "csv", "-q", "--log", file(t, "all.log", first+second)); out != want {
		t.Errorf("%s", out)
	}
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "events"), 0o777); err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"000001.log.zst": string(z.EncodeAll([]byte(first), nil)), "000002.log": second, "000002.log.zst": "half packed", "000003.log.new": "begun",
	} {
		if err := os.WriteFile(filepath.Join(state, "events", name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := plans(t, none, "--policy", "srtf", "-o", "csv", "-q", "--log", state); out != want {
		t.Errorf("%s", out)
	}
	cmd := liveRoot(shellOf(&fake{}))
	var b strings.Builder
	cmd.SetArgs([]string{"plan", "--policy", "srtf", "-o", "csv", "-q", "--log", "-"})
	cmd.SetIn(strings.NewReader(first + second))
	cmd.SetOut(&b)
	if err := cmd.Execute(); err != nil || b.String() != want {
		t.Errorf("%v, %s", err, b.String())
	}
}

// TestPlanStretch looks at a part of the time.
func TestPlanStretch(t *testing.T) {
	out, _ := plans(t, &recorder{log: first + second}, "--policy", "srtf", "--since", "2026-03-04 11:01", "--until", "2026-03-04 11:01:40", "--json")
	p := decoded(t, out)
	// From 3660 to 3700 s: jobs 2 and 3 were there already, 6 is released and still runs.
	if want := (whatif.JobsJSON{Submitted: 3, Compared: 2, NotEnded: 1, Already: 3}); p.Jobs != want || p.FromS != 3660 || p.ToS != 3700 || !slices.Equal(p.InForce, []string{"fifo(mode=skip)"}) {
		t.Errorf("%+v", p)
	}
	if got := p.Runs[0].JCT; abs(got.Median-13) > 1e-6 {
		t.Errorf("%+v", got)
	}
}

// TestPlanFiles writes the files and the page.
func TestPlanFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	_, errOut := plans(t, &recorder{log: first + second}, "--policy", "srtf", "--devices", "3", "--out", dir)
	if !strings.Contains(errOut, "norn: wrote "+filepath.Join(dir, "report.html")) {
		t.Errorf("%s", errOut)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string][]string{
		"as_it_was": {"jobs.csv", "summary.json"}, "srtf": {"jobs.csv", "summary.json", "events.log.zst"},
		"fifo(mode=skip)": {"events.log.zst"}, "srtf,_3_GPUs": {"events.log.zst"}, "fifo(mode=skip),_3_GPUs": {"summary.json"},
	} {
		if row := strings.ReplaceAll(name, "_", " "); !strings.Contains(string(page), row) {
			t.Errorf("the page does not tell of %s", row)
		}
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(dir, name, f)); err != nil {
				t.Error(err)
			}
		}
	}
	out, _ := works(t, "explain", filepath.Join(dir, "srtf"), "2")
	if !strings.Contains(out, "2026-03-04 09:00:20  submitted") {
		t.Errorf("%s", out)
	}
	log := filepath.Join(dir, "srtf", "events.log.zst")
	if _, errOut, code := plan(t, nil, "--log", log, "--policy", "srtf", "--out", dir); code != exitUsage || !strings.Contains(errOut, "name another folder") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}

// TestPlanRefuses says what cannot be planned.
func TestPlanRefuses(t *testing.T) {
	log := &recorder{log: first + second}
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"--devices 4 --add-devices 1":      {exitUsage, "name one of them"},
		"--devices 0":                      {exitUsage, "write 1 or more"},
		"--devices 65":                     {exitUsage, "64 are the most"},
		"--devices 4 --set srtf.x=1":       {exitUsage, "name the policy"},
		"--policy srft":                    {exitUsage, "srtf"},
		"--estimates guess":                {exitUsage, "none of believed"},
		"--cost start=soon":                {exitUsage, "--cost start=soon"},
		"--since monday":                   {exitUsage, "not a moment"},
		"--until 2026-03-04T08:59:00Z":     {exitUsage, "before the log begins"},
		"--since 11:00 --until 10:30":      {exitUsage, "is not after --since 11:00"},
		"--cluster nowhere":                {exitFailed, "nowhere"},
		"--log /nowhere/at/all":            {exitFailed, "no such file"},
		"-o yaml":                          {exitUsage, "write one of"},
		"--until 2026-03-04T09:30:00Z":     {exitFailed, "there is too little history to plan with: of 4 jobs from 2026-03-04 10:00 to 2026-03-04 10:30, none has ended after it ran"},
		"--policy srtf --since 2027-01-01": {exitFailed, "too little history"},
		"extra":                            {exitUsage, "unknown command"},
	} {
		out, errOut, code := plan(t, log, strings.Fields(line)...)
		if code != want.code || out != "" || !strings.Contains(errOut, want.text) {
			t.Errorf("norn plan %s: exit code %d, %s%s", line, code, out, errOut)
		}
	}
	for text, r := range map[string]*recorder{
		"only an operator may read it": {err: api.Refuse(api.Denied, "only an operator may read it")},
		"norn is stopping":             {log: first, err: api.Refuse(api.Unavailable, "norn is stopping")},
		"is no event log":              {log: "{}\n"},
		"test the line":                {log: first + "test the line\n"},
	} {
		if text == "test the line" {
			text = "the event log:13: "
		}
		if out, errOut, code := plan(t, r); code != exitFailed || out != "" || !strings.Contains(errOut, text) {
			t.Errorf("%s: exit code %d, %s%s", text, code, out, errOut)
		}
	}
	unknown := strings.ReplaceAll(first+second, `"policy":"fifo","settings":["mode=skip"]`, `"policy":"own"`)
	if out, errOut, code := plan(t, &recorder{log: unknown}, "--policy", "srtf"); code != 0 || !strings.Contains(errOut, "is not checked") || strings.Contains(out, "simulated") {
		t.Errorf("exit code %d, %s%s", code, out, errOut)
	}
	if _, errOut, code := plan(t, &recorder{log: unknown}, "--devices", "4"); code != exitFailed || !strings.Contains(errOut, "name another one with --policy") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}

// TestLiveLogs: a log of a live machine is read by the other verbs, too, on the
// machine that it tells of.
func TestLiveLogs(t *testing.T) {
	path := file(t, "live.log", first+`{"t":60,"e":"su`+second)
	out, errOut := works(t, "sim", path, "--policy", "fifo", "--table", "csv")
	if !strings.Contains(out, "fifo,") || !strings.Contains(errOut, "line 13: the log breaks off here, and another one goes on") {
		t.Errorf("%s%s", out, errOut)
	}
	if out, _ := works(t, "explain", path, "2"); !strings.Contains(out, "2026-03-04 09:00:50  the log breaks off, and another one goes on\n2026-03-04 10:00:10  starts on box[0], after 59m50s") {
		t.Errorf("%s", out)
	}
	if out, errOut := works(t, "explain", path); !strings.Contains(errOut, "a log breaks off before another one goes on") || strings.Count(out, "\n") != 7 {
		t.Errorf("%s%s", out, errOut)
	}
}
