package convert

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
)

// TestPlan writes plans in their short form.
func TestPlan(t *testing.T) {
	for want, p := range map[string]*Plan{
		"3 n1*2,n2*2,n3":                {3, []string{"n1", "n1", "n2", "n2", "n3"}},
		"1 n1,n2,n1":                    {1, []string{"n1", "n2", "n1"}},
		"1 gke-pool-x7*2,9+9q,h1,gke-p": {1, []string{"gke-pool-x7", "gke-pool-x7", "gke-pool-9q", "h1", "gke-p"}},
		"1 ip-10-0-4-17.compute.internal,8+5-21+17,11+2+17": {1, []string{"ip-10-0-4-17.compute.internal", "ip-10-0-5-21.compute.internal", "ip-10-0-5-22.compute.internal"}},
		"2147483647 a.b-c": {1<<31 - 1, []string{"a.b-c"}},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		back, err := ParsePlan(want)
		if err != nil || back.Run != p.Run || !slices.Equal(back.Nodes, p.Nodes) {
			t.Errorf("%q is %+v, %v", want, back, err)
		}
	}
}

// TestPlanSize: 5,000 ranks, each on a node of its own with a long name, need less than
// 100 KiB.
func TestPlanSize(t *testing.T) {
	p := &Plan{Run: 12}
	for i := range 5000 {
		p.Nodes = append(p.Nodes, fmt.Sprintf("gke-training-cluster-a3-mega-pool-%04x-%08x.internal", i/1000, uint32(i)*2654435761))
	}
	text := p.String()
	back, err := ParsePlan(text)
	if len(text) > 80<<10 || err != nil || !slices.Equal(back.Nodes, p.Nodes) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	for i := range p.Nodes {
		p.Nodes[i] = fmt.Sprintf("gke-training-cluster-a3-mega-pool-%04x-%08x.internal", i/1000, uint32(i/8)*2654435761)
	}
	if n := len(p.String()); n > 20<<10 {
		t.Errorf("eight a node: %d bytes", n)
	}
}

// TestPlanErrors: whatever users write is an error that says what is wrong.
func TestPlanErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "is no number of a run", "3": "is no number of a run", "x n1": "is no number of a run", "0 n1": "run 0, the first is 1", "1 ": `"" is no name of a node`,
		"1 n1*0": "too many ranks", "1 n1*x": "too many ranks", "1 n1*200000": "too many ranks", "1 n1*131072,n2": "too many ranks", "1 n1,9+x": "is no node",
		"1 N1": "no name of a node", "1 n1,,n2": "no name of a node", "1 n1*2*2": "too many ranks", "1 " + strings.Repeat("n", 254): "a name of 254 bytes",
		"1 " + strings.Repeat("n", 201<<10): "bytes, at most", "1 a,-1+b": "is no node", "1 a,1+b+9": "is no node", "1 abcd,1+b+1+1": "is no node", "1 abcd,1+b+": "is no node", "99999999999 n1": "is no number of a run",
	} {
		if _, err := ParsePlan(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "plan: ") {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// TestPlans: any plan can be read again.
func TestPlans(t *testing.T) {
	node := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z0-9]{1,3})?`)
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(node, 1, 6).Draw(t, "names")
		p := &Plan{rapid.Int32Range(1, 1<<31-1).Draw(t, "run"), rapid.SliceOfN(rapid.SampledFrom(some), 1, 30).Draw(t, "nodes")}
		back, err := ParsePlan(p.String())
		if err != nil || back.Run != p.Run || !slices.Equal(back.Nodes, p.Nodes) {
			t.Fatalf("%q: %+v, %v", p.String(), back, err)
		}
	})
}

// carried is an event as the world has it when it stops a job.
func carried() *eventlog.Event {
	j := &job.Job{ID: 7, Serial: 4711, Key: "team-a/bert"}
	r := &job.Record{
		Job: j, Phase: job.Waiting, Since: 90 * time.Second, FirstStart: 10 * time.Second, End: -1, AllocatedTime: 80 * time.Second, Service: 640, Lost: 12.5,
		Progress: 75 * time.Second, Starts: 2, Preemptions: 1, Failures: 1, With: 5, Merged: job.After, Saves: job.Saves{Last: 60 * time.Second},
	}
	return &eventlog.Event{
		Time: 100 * time.Second, Kind: eventlog.Carry, Job: 7, Record: r, Estimate: time.Hour, Left: 3,
		Reason: job.Reason{Code: job.NeedGPUs, Need: 8, Have: 2, Job: 3}, Alloc: &cluster.Alloc{},
	}
}

// TestRecord: what is remembered of a job comes back, but for what follows from elsewhere.
func TestRecord(t *testing.T) {
	ev := carried()
	text, err := FormatRecord(ev)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid([]byte(text)) || len(text) > 500 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	back, err := ParseRecord(text)
	if err != nil {
		t.Fatal(text, err)
	}
	want := *ev.Record
	want.Job, want.With, want.Merged, want.Slot, want.Saves = nil, job.None, job.Apart, back.Record.Slot, back.Record.Saves
	if got := *back.Record; !reflect.DeepEqual(got, want) || got.Saves.Last != time.Minute {
		t.Errorf("%+v\n want %+v", got, want)
	}
	if back.Spec.Key != "team-a/bert" || back.Spec.Serial != 4711 || back.Estimate != time.Hour || back.Time != ev.Time || back.Reason != (job.Reason{Code: job.NeedGPUs, Need: 8, Have: 2, Job: job.None}) {
		t.Errorf("%+v %+v", back, back.Spec)
	}
	if ev.Job != 7 || ev.Record.With != 5 || ev.Reason.Job != 3 {
		t.Error("the event was changed")
	}
	again, err := FormatRecord(&eventlog.Event{Time: back.Time, Record: withJob(back), Reason: back.Reason, Estimate: back.Estimate})
	if err != nil || strings.Contains(again, `"with"`) {
		t.Errorf("%s, %v", again, err)
	}
}

// withJob is the record of an event with its job.
func withJob(ev *eventlog.Event) *job.Record {
	r := *ev.Record
	r.Job = ev.Spec
	return &r
}

// TestRecordErrors: whatever users write is an error that says what is wrong.
func TestRecordErrors(t *testing.T) {
	text, err := FormatRecord(carried())
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]string{
		"record: ":                  "{",
		"an event without its kind": "{}",
		"of an unknown kind":        `{"t":1,"e":"elope","j":0}`,
		"without the job (spec)":    `{"t":1,"e":"carry","j":0}`,
		"an event wait, not carry":  `{"t":1,"e":"wait","j":0}`,
		"or its number":             strings.Replace(text, `"j":0`, `"j":1`, 1),
		"what the job holds":        strings.Replace(text, `"est"`, `"on":[{"n":0,"d":[0]}],"est"`, 1),
		"a negative number":         strings.Replace(text, `"starts":2`, `"starts":-2`, 1),
		"at most 49152 are read":    text + strings.Repeat(" ", maxRecord),
		`"daydreaming" is none of`:  strings.Replace(text, `"waiting"`, `"daydreaming"`, 1),
	} {
		if _, err := ParseRecord(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	ev := carried()
	ev.Record.Job = nil
	if _, err := FormatRecord(ev); err == nil {
		t.Error("a record of no job is no error")
	}
	ev = carried()
	ev.Time = -1
	if _, err := FormatRecord(ev); err == nil || !strings.Contains(err.Error(), "team-a/bert") {
		t.Error(err)
	}
	ev = carried()
	ev.Reason.Text = strings.Repeat("x", maxRecord)
	if _, err := FormatRecord(ev); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
}

// FuzzPlan: a plan that can be read is written as one that is the same.
func FuzzPlan(f *testing.F) {
	for _, text := range []string{"3 n1*8,n2*8,n3", "1 gke-pool-x7*8,9+9q*8", "1 a,0+b", "1 abc,1+x+1", "1 n1*131072"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlan(text)
		if err != nil {
			return
		}
		if again, err := ParsePlan(p.String()); err != nil || again.Run != p.Run || !slices.Equal(again.Nodes, p.Nodes) {
			t.Errorf("%q is %q, and that is %v", text, p.String(), err)
		}
	})
}

// FuzzRecord: a record that can be read can be carried over and written again.
func FuzzRecord(f *testing.F) {
	text, err := FormatRecord(carried())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(strings.Replace(text, `"record"`, `"kind":"las","note":{"level":2},"record"`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		ev, err := ParseRecord(text)
		if err != nil {
			return
		}
		ev.Record.Job = ev.Spec
		once, err := FormatRecord(ev)
		if err != nil {
			return // a time beyond what is written
		}
		again, err := ParseRecord(once)
		if err != nil {
			t.Fatalf("%q is %q, and that is %v", text, once, err)
		}
		again.Record.Job = again.Spec
		if twice, err := FormatRecord(again); err != nil || twice != once {
			t.Errorf("%q, then %q, %v", once, twice, err)
		}
		var r job.Record
		r.Submit(ev.Spec, 0)
		_ = r.Carry(ev.Record)
	})
}

// FuzzNode: a node that can be read can be added to a cluster.
func FuzzNode(f *testing.F) {
	text, err := json.Marshal(gpuNode("n1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var n corev1.Node
		if json.Unmarshal(text, &n) != nil {
			return
		}
		is, err := NewNode(&n, DefaultLevels())
		if err != nil {
			return
		}
		slots, _ := SlotNames([]*Node{is})
		c, err := clusterOf(slots, is)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := c.Check(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

// FuzzPod: a pod that can be read is a job, or says why it is none.
func FuzzPod(f *testing.F) {
	p := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "1", "memory", "1Gi", "nvidia.com/gpu", "2")}, NodeSelector: map[string]string{"a": "b"}}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists"}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Gt", Values: []string{"4"}}}}},
	}}}
	text, err := json.Marshal(&p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var p corev1.Pod
		if json.Unmarshal(text, &p) != nil {
			return
		}
		u := UseOf(&p, []string{"pods"})
		if u.CPU < 0 || u.Memory < 0 || u.CPU > 1<<60 || u.Memory > 1<<50*unit.Bytes(1) {
			t.Errorf("takes %+v", u)
		}
		_, _ = MemberOf(&p)
		a, err := Pod(&p.Spec, p.Labels, p.Annotations, DefaultLevels())
		if err != nil {
			return
		}
		if w, err := label.ParseWhere(a.Where); err != nil || w.String() != a.Where {
			t.Errorf("where %q is %q, %v", a.Where, w.String(), err)
		}
		if d, err := Demand([]Set{{Count: 1, Ask: a}}, Types{}); err == nil && d.Check() != nil {
			t.Errorf("%+v: %v", d, d.Check())
		}
	})
}
