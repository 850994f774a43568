package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/live"
)

// noon is when the tests of the live verbs take place.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.FixedZone("CET", 3600)) // a Wednesday

// fake is a Norn that remembers what it was asked.
type fake struct {
	mu     sync.Mutex
	list   []api.Job
	status api.Status
	node   api.Node
	nodes  []api.Node // of a cluster
	why    api.Why
	fsck   api.Fsck
	events []api.Event
	output map[string]string // by job and run: 17/1
	refuse map[string]error  // by call, as in cancel 17

	submitted []api.JobSpec
	queries   []api.Query
	asked     []string
	looked    int           // how often jobs were listed or told of
	onLook    func(n int)   // before the n-th time
	watched   chan struct{} // closed once somebody watches
	tell      chan api.Event
}

func (f *fake) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	f.asked = append(f.asked, call)
	return f.refuse[call]
}

func (f *fake) Submit(_ context.Context, spec api.JobSpec) ([]string, error) {
	if err := f.note("submit"); err != nil {
		return nil, err
	}
	f.submitted = append(f.submitted, spec)
	id := fmt.Sprint(16 + len(f.submitted))
	if spec.Array != "" {
		return []string{id, id + "_1", id + "_2"}, nil
	}
	return []string{id}, nil
}

func (f *fake) look() {
	f.mu.Lock()
	f.looked++
	n, hook := f.looked, f.onLook
	f.mu.Unlock()
	if hook != nil {
		hook(n)
	}
}

func (f *fake) Jobs(_ context.Context, q api.Query) ([]api.Job, error) {
	f.look()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = append(f.queries, q)
	var out []api.Job
	for _, j := range f.list {
		named := len(q.IDs) == 0 || slices.ContainsFunc(q.IDs, func(id string) bool { return meant(id, j.ID) })
		state := len(q.States) == 0 || slices.Contains(q.States, j.State)
		user := len(q.Users) == 0 || slices.Contains(q.Users, j.User)
		if named && state && user && (q.All || !j.State.Over()) && (q.Name == "" || q.Name == j.Name) && (q.Tenant == "" || q.Tenant == j.Tenant) {
			out = append(out, j)
		}
	}
	return out, f.refuse["jobs"]
}

func (f *fake) Job(_ context.Context, id string) (api.Job, error) {
	f.look()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.list {
		if j.ID == id {
			return j, nil
		}
	}
	return api.Job{}, api.Refuse(api.Unknown, "there is no job %s", id)
}

func (f *fake) Why(_ context.Context, id string) (api.Why, error) {
	return f.why, f.note("why %s", id)
}

func (f *fake) Do(_ context.Context, verb, id string) error { return f.note("%s %s", verb, id) }

func (f *fake) Resize(_ context.Context, id string, r api.Resize) error {
	return f.note("resize %s %v", id, r.GPUs)
}

func (f *fake) Logs(_ context.Context, id string, o client.LogOptions) (io.ReadCloser, error) {
	if err := f.note("logs %s %+v", id, o); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.output[fmt.Sprintf("%s/%d", id, o.Run)]
	if !ok {
		return nil, api.Refuse(api.Unknown, "job %s has no run %d", id, o.Run)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (f *fake) Proxy() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s of norn", r.URL.Path) })
}

func (f *fake) Node(context.Context) (api.Node, error) { return f.node, nil }

func (f *fake) Nodes(_ context.Context, q api.NodeQuery) ([]api.Node, error) {
	if err := f.note("nodes %+v", q); err != nil {
		return nil, err
	}
	return live.SelectNodes(slices.Clone(f.nodes), &q)
}

func (f *fake) Status(context.Context) (api.Status, error) { return f.status, f.note("status") }

func (f *fake) Drain(_ context.Context, d api.Drain) error { return f.note("drain %+v", d) }

func (f *fake) Reclaim(_ context.Context, r api.Reclaim) ([]string, error) {
	notice := "its own time"
	if r.Notice != nil {
		notice = r.Notice.Duration().String()
	}
	meant := r.Devices
	if r.Where != "" || r.Count > 0 {
		meant = []string{"a-7", "a-8"}
	}
	return meant, f.note("reclaim %q %q %d lend %v within %s: %s", r.Devices, r.Where, r.Count, r.Lend, notice, r.Why)
}

func (f *fake) SetPolicy(_ context.Context, choice string) error {
	f.status.Policy = choice
	return f.note("use %s", choice)
}

func (f *fake) Input(_ context.Context, id string, in api.Input) error {
	return f.note("input %s %q %dx%d", id, in.Data, in.Rows, in.Cols)
}

func (f *fake) Fsck(_ context.Context, repair bool) (api.Fsck, error) {
	return f.fsck, f.note("fsck %v", repair)
}

func (f *fake) EventLog(_ context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, "the log"); err != nil {
		return err
	}
	return f.note("log")
}

func (f *fake) Watch(ctx context.Context, since int64, each func(api.Event) error) error {
	if f.watched != nil {
		close(f.watched)
	}
	for _, e := range f.events {
		if e.Seq < since {
			continue
		}
		if err := each(e); err != nil {
			return err
		}
	}
	for {
		select {
		case e := <-f.tell:
			if err := each(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// shellOf is a shell in which a fake Norn is found.
func shellOf(f *fake, env ...string) *shell {
	return &shell{
		connect: func(*shell, where) (daemon, error) { return f, nil },
		now:     func() time.Time { return noon },
		environ: func() []string { return append([]string{"PATH=/bin", "HOME=/srv/ann", "EXTRA=1"}, env...) },
		dir:     func() (string, error) { return "/srv/ann/work", nil },
		user:    func() (string, error) { return "ann", nil },
		process: func() (string, map[string]string) { return "", nil },
	}
}

// liveRoot is norn with the live verbs alone.
func liveRoot(s *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "norn", SilenceUsage: true, SilenceErrors: true}
	cmd.AddCommand(s.commands()...)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused("%w%s", err, nearFlag(flagNames(cmd), err)) })
	strict(cmd)
	return cmd
}

// liveIn runs one live verb in a shell.
func liveIn(ctx context.Context, s *shell, args ...string) (out, errOut string, code int) {
	var o, e bytes.Buffer
	cmd := liveRoot(s)
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	called, err := cmd.ExecuteContextC(ctx)
	var own exitCode
	if errors.As(err, &own) {
		return o.String(), e.String(), int(own)
	}
	code = fate(called, err, &e)
	return o.String(), e.String(), code
}

// liveWorks runs one live verb that must succeed.
func liveWorks(t *testing.T, f *fake, args ...string) (out, errOut string) {
	t.Helper()
	out, errOut, code := liveIn(t.Context(), shellOf(f), args...)
	if code != 0 {
		t.Fatalf("norn %s: exit code %d, %s", strings.Join(args, " "), code, errOut)
	}
	return out, errOut
}

var update = flag.Bool("update", false, "write the files of expected texts anew")

// golden holds a text against a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s should be\n%s\nand is\n%s", name, want, got)
	}
}

// sampleJobs are jobs in all states.
func sampleJobs() []api.Job {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	train := []string{"python", "train.py"}
	return []api.Job{
		{ID: "3", Name: "bert-large", User: "ann", Tenant: "nlp", State: api.Running, GPUs: api.Range{Least: 1, Most: 4, Ask: 4}, Allocated: 2, Devices: []string{"gpu0", "gpu1"}, StopMode: "checkpoint",
			Submitted: ago(3 * time.Hour), Started: ago(2 * time.Hour), Since: ago(2 * time.Hour), Wait: 3600, Ran: 7200, GPUTime: 4 * 3600, Estimate: 4 * 3600, ExpectEnd: noon.Add(2 * time.Hour), Run: 1,
			Progress: &api.Report{Step: 4200, Steps: 10000, Loss: 2.1}, Command: train},
		{ID: "5", User: "bob", Tenant: "vision", State: api.Running, GPUs: api.Fixed(1), Allocated: 1, Devices: []string{"gpu2"}, StopMode: "restart",
			Submitted: ago(time.Hour), Started: ago(50 * time.Minute), Since: ago(50 * time.Minute), Wait: 600, Ran: 3000, Estimate: 2400, ExpectEnd: ago(10 * time.Minute), Run: 1, Command: train},
		{ID: "6", Name: "eval", User: "bob", Tenant: "vision", State: api.Stopping, GPUs: api.Fixed(0.5), Allocated: 0.5, Devices: []string{"gpu3"}, StopMode: "checkpoint", Reason: "preempted for job 7",
			Submitted: ago(time.Hour), Started: ago(time.Hour), Since: ago(3 * time.Second), Ran: 3600, Run: 1, Command: train},
		{ID: "7", Name: "urgent", User: "eve", Tenant: "nlp", State: api.Assigned, GPUs: api.Fixed(1), Allocated: 1, Devices: []string{"gpu3"}, StopMode: "never", Reason: "its devices are being left",
			Submitted: ago(4 * time.Second), Since: ago(3 * time.Second), Wait: 4, Estimate: 1800, Command: train},
		{ID: "8", Name: "resnet-with-a-very-long-name-indeed", User: "ann", Tenant: "nlp", State: api.Waiting, GPUs: api.Fixed(4), Tasks: api.Tasks{PerGPU: true}, CPUs: 16, Memory: 64 << 30, StopMode: "checkpoint",
			Submitted: ago(12 * time.Minute), Since: ago(12 * time.Minute), Wait: 720, Estimate: 5400, Reason: "needs 4 GPUs; 1 is free", Command: train},
		{ID: "9_2", Name: "sweep", User: "bob", Tenant: "vision", State: api.Held, GPUs: api.Fixed(0), StopMode: "restart",
			Submitted: ago(26 * time.Hour), Since: ago(26 * time.Hour), Wait: 26 * 3600, Reason: "held by its user", Command: train},
		{ID: "1", Name: "first", User: "ann", Tenant: "nlp", State: api.Done, GPUs: api.Fixed(2), StopMode: "restart",
			Submitted: ago(20 * time.Hour), Started: ago(19 * time.Hour), Since: ago(18 * time.Hour), Ended: ago(18 * time.Hour), Wait: 3600, Ran: 3600, GPUTime: 7200, Run: 1, Exit: &api.Exit{}, Command: train},
		{ID: "2", Name: "second\x1b[31m", User: "bob", Tenant: "vision", State: api.Failed, GPUs: api.Fixed(1), StopMode: "restart", Reason: "it failed 3 times",
			Submitted: ago(5 * time.Hour), Started: ago(5 * time.Hour), Since: ago(4 * time.Hour), Ended: ago(4 * time.Hour), Ran: 1800, GPUTime: 1800, Run: 3, Failures: 3, Preemptions: 2, Exit: &api.Exit{Code: 137, Signal: "SIGKILL", Note: "out of memory"}, Command: train},
		{ID: "4", Name: "third", User: "ann", Tenant: "nlp", State: api.Cancelled, GPUs: api.Fixed(8), StopMode: "restart", Reason: "cancelled by ann",
			Submitted: ago(40 * time.Hour), Since: ago(30 * time.Hour), Ended: ago(30 * time.Hour), Wait: 36000, Command: train},
	}
}

// sampleNode is a machine with four GPUs, one of them broken and one slow.
func sampleNode() api.Node {
	gpu := func(i int, util float64, used api.Bytes, jobs ...string) api.Device {
		return api.Device{Name: fmt.Sprintf("gpu%d", i), Index: i, Type: "NVIDIA H200", NUMA: i / 2, Memory: 141 << 30, Jobs: jobs,
			Used: used << 30, Util: util, Celsius: 61, Watts: 480, Measured: true}
	}
	n := api.Node{Name: "box1", Health: "up", CPUs: 64, CPUsAllocated: 40, Memory: 512 << 30, MemAllocated: 96 << 30, NUMA: 2,
		Devices:   []api.Device{gpu(0, 0.97, 120, "3"), gpu(1, 0.95, 118, "3"), gpu(2, 0.31, 20, "5"), gpu(3, 0, 0, "6", "7")},
		Isolation: []string{"CPU time and memory by cgroups v2", "not: device files, for want of rights"},
		Disk:      api.Disk{Path: "/var/lib/norn", Free: 120 << 30, Size: 400 << 30}}
	n.Devices[2].Slow, n.Devices[2].SlowJobs = 1.31, 4
	n.Devices[3].Broken, n.Devices[3].Note = true, "XID 79: it has fallen off the bus"
	return n
}

func sampleStatus() api.Status {
	return api.Status{Version: "1.0", Now: noon, Up: noon.Add(-76 * time.Hour), Policy: "tiresias(limits=3600,36000)", Held: 1, Waiting: 1, Running: 2, Stopping: 1, Ended: 3, Events: 3,
		Trouble: []string{"gpu3 is broken: XID 79: it has fallen off the bus"},
		Tenants: []api.Tenant{{Name: "nlp", Guarantee: 2, Limit: 3, Weight: 1, Allocated: 2, Waiting: 1, Usage: 12.5}, {Name: "vision", Weight: 2, Allocated: 1.5, Usage: 3}}}
}

func busy() *fake {
	return &fake{list: sampleJobs(), status: sampleStatus(), node: sampleNode(), refuse: map[string]error{}, output: map[string]string{}}
}

// TestAddress: where Norn is looked for, in which order, and what proves who
// calls.
func TestAddress(t *testing.T) {
	dir := t.TempDir()
	s := shellOf(nil, "XDG_RUNTIME_DIR="+dir, "HOME="+filepath.Join(dir, "home"))
	own := filepath.Join(dir, "home", ".local", "state", "norn", "norn.sock")
	if err := os.MkdirAll(filepath.Dir(own), 0o777); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(dir, "norn.sock")
	if err := os.WriteFile(stale, nil, 0o600); err != nil { // nobody listens there
		t.Fatal(err)
	}
	l, err := net.Listen("unix", own)
	if err != nil {
		t.Skip("no socket can be made here: ", err)
	}
	defer l.Close()
	if _, err := os.Stat("/run/norn.sock"); err == nil {
		t.Skip("a Norn runs on this machine")
	}
	for _, c := range []struct {
		env         []string
		named, want string
	}{
		{nil, "", own},
		{nil, "/x.sock", "/x.sock"},
		{[]string{"NORN_SERVER=https://box:7077"}, "", "https://box:7077"},
		{[]string{"NORN_SOCKET=/job.sock"}, "", "/job.sock"},
		{[]string{"NORN_SOCKET=/job.sock", "NORN_SERVER=/a"}, "/b", "/b"},
	} {
		s := shellOf(nil, append([]string{"XDG_RUNTIME_DIR=" + dir, "HOME=" + filepath.Join(dir, "home")}, c.env...)...)
		if got := s.address(c.named); got != c.want {
			t.Errorf("%v, --server %q: %s, want %s", c.env, c.named, got, c.want)
		}
	}
	l.Close()
	os.Remove(own)
	os.Remove(stale)
	if got := s.address(""); got != s.sockets()[0] {
		t.Errorf("without any Norn: %s", got)
	}
}

// TestKubeSocket: --kube finds the Norn that schedules a cluster from here.
func TestKubeSocket(t *testing.T) {
	dir := shortDir(t)
	s := shellOf(nil, "XDG_STATE_HOME="+dir)
	listen := func(cluster string) net.Listener {
		path := filepath.Join(dir, "norn-kube", cluster)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(path, "norn.sock"))
		if err != nil {
			t.Skip("no socket can be made here: ", err)
		}
		return l
	}
	check := func(w where, want, wrong string) {
		t.Helper()
		got, err := s.kubeSocket(w)
		if want != "" {
			want = filepath.Join(dir, "norn-kube", want, "norn.sock")
		}
		if got != want || (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%+v: %s, %v", w, got, err)
		}
	}
	check(where{kube: anyCluster}, "", "no norn kube up runs here")
	one := listen("one")
	defer one.Close()
	check(where{kube: anyCluster}, "one", "")
	two := listen("t_wo")
	check(where{kube: anyCluster}, "", "--kube=CLUSTER: one, t_wo")
	check(where{kube: "t/wo"}, "t_wo", "")
	check(where{kube: "three"}, "", "no norn kube up runs here")
	check(where{kube: "one", server: "x"}, "", "not both")
	two.Close()
	check(where{kube: anyCluster}, "one", "") // who has died is not asked
}

func TestToken(t *testing.T) {
	path := file(t, "token", " secret \n")
	const url = "https://box:7077"
	for _, c := range []struct {
		env              []string
		file, addr, want string
	}{
		{nil, "", url, ""},
		{[]string{"NORN_TOKEN=abc"}, "", url, "abc"},
		{[]string{"NORN_TOKEN=abc", "NORN_TOKEN_FILE=" + path}, "", url, "secret"},
		{[]string{"NORN_TOKEN=abc"}, path, "/run/norn.sock", "secret"},
		{[]string{"NORN_TOKEN=that of a job", "NORN_TOKEN_FILE=" + path}, "", "/run/norn.sock", ""},
	} {
		if got, err := shellOf(nil, c.env...).token(c.file, c.addr); err != nil || got != c.want {
			t.Errorf("%v, --token-file %q at %s: %q, %v, want %q", c.env, c.file, c.addr, got, err, c.want)
		}
	}
	for _, bad := range []string{file(t, "empty", "\n"), "/nowhere"} {
		if _, err := shellOf(nil).token(bad, url); err == nil || !strings.Contains(err.Error(), "the token cannot be read: ") {
			t.Errorf("%v", err)
		}
	}
}

// TestNobodyThere: without a running Norn, verbs say what to do.
func TestNobodyThere(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "norn.sock")
	for _, args := range [][]string{{"ps"}, {"submit", "--", "true"}, {"why", "1"}, {"top", "--once"}, {"logs", "1"}, {"cancel", "1"}, {"drain"}, {"use", "fifo"}, {"status"}} {
		s := shellOf(nil)
		s.connect = dial
		out, errOut, code := liveIn(t.Context(), s, append(args[:1:1], append([]string{"--server", socket}, args[1:]...)...)...)
		if code != exitFailed || out != "" || !strings.Contains(errOut, "norn: no norn is running here (socket "+socket+"): start it with norn up") {
			t.Errorf("norn %s: exit code %d, %q, %q", args, code, out, errOut)
		}
	}
	s := shellOf(nil)
	s.connect = dial
	if _, errOut, code := liveIn(t.Context(), s, "ps", "--server", "ftp://box"); code != exitUsage || !strings.Contains(errOut, "is not an address of a norn") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestOverHTTP sends a question with its token over HTTP.
func TestOverHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no port can be opened here: ", err)
	}
	var asked, token string
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, token = r.Method+" "+r.URL.String(), r.Header.Get("Authorization")
		io.WriteString(w, `{"jobs":[{"id":"17","user":"ann","state":"waiting","gpus":1,"tasks":1,"submitted":"2026-03-04T10:00:00Z","since":"2026-03-04T10:00:00Z","wait":3600,"ran":0,"command":["true"]}]}`)
	})}
	go srv.Serve(l)
	defer srv.Close()
	s := shellOf(nil, "NORN_TOKEN=abc", "NORN_SERVER=http://"+l.Addr().String())
	s.connect = dial
	out, errOut, code := liveIn(t.Context(), s, "ps", "--state", "waiting", "-o", "csv")
	if code != 0 || !strings.Contains(out, "17,,ann,,waiting,") || token != "Bearer abc" || asked != "GET /v1/jobs?state=waiting" {
		t.Errorf("exit code %d, %q, %q, %q, %q", code, out, errOut, asked, token)
	}
}

// TestLiveCompletion: shells are told jobs, states, devices and tenants.
func TestLiveCompletion(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"why", ""}, []string{"3", "5", "6", "7", "8", "9_2", "1", "2", "4"}},
		{[]string{"cancel", ""}, []string{"3", "5", "6", "7", "8", "9_2"}},
		{[]string{"cancel", "3", "5", ""}, []string{"6", "7", "8", "9_2"}},
		{[]string{"release", ""}, []string{"9_2"}},
		{[]string{"resize", ""}, []string{"3", "5"}},
		{[]string{"resize", "3", ""}, nil},
		{[]string{"logs", "9"}, []string{"9_2"}},
		{[]string{"history", ""}, []string{"1", "2", "4"}},
		{[]string{"submit", "--after", ""}, []string{"3", "5", "6", "7", "8", "9_2", "1", "2", "4"}},
		{[]string{"submit", "--stop", ""}, stopModes},
		{[]string{"submit", "--tenant", ""}, []string{"nlp", "vision"}},
		{[]string{"ps", "--state", ""}, stateNames()},
		{[]string{"ps", "-o", ""}, []string{"text", "json", "wide", "csv", "name"}},
		{[]string{"drain", ""}, []string{"gpu0", "gpu1", "gpu2", "gpu3"}},
		{[]string{"use", ""}, policyNames()},
	} {
		out, _ := liveWorks(t, busy(), append([]string{cobra.ShellCompRequestCmd}, c.args...)...)
		var got []string
		for line := range strings.SplitSeq(out, "\n") {
			if word, _, _ := strings.Cut(line, "\t"); word != "" && !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

// TestFsckTells: fsck says what was found and done, and its exit code says whether
// anything is left.
func TestFsckTells(t *testing.T) {
	found := api.Fsck{Folder: "/s", Logs: 1, Events: 12, Ended: 3, Jobs: 2, Runs: 1, Findings: []api.Finding{}}
	ill := api.Finding{File: "jobs/7/spec.json", Job: "7", Text: "it is damaged"}
	mended := ill
	mended.Done = "it is written anew"
	for _, c := range []struct {
		findings []api.Finding
		args     []string
		code     int
		want     string
	}{
		{nil, nil, 0, "/s: 1 event log, 12 events, 3 ended jobs, 2 descriptions, 1 run: nothing is wrong\n"},
		{[]api.Finding{ill}, nil, 1, "1 thing is wrong\njob 7: jobs/7/spec.json: it is damaged\n"},
		{[]api.Finding{mended}, []string{"--repair"}, 0, "it is damaged; it is written anew\n"},
		{[]api.Finding{mended, ill}, []string{"--repair"}, 1, "2 things are wrong\n"},
		{[]api.Finding{ill}, []string{"--json"}, 1, `"text": "it is damaged"`},
	} {
		f := &fake{fsck: found}
		f.fsck.Findings = append([]api.Finding{}, c.findings...)
		out, errOut, code := liveIn(t.Context(), shellOf(f), append([]string{"fsck", "--server", "/nowhere"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.want) || errOut != "" {
			t.Errorf("%v with %v: exit code %d, %q, %q", c.args, c.findings, code, out, errOut)
		}
	}
}
