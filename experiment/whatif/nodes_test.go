package whatif_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// fleet is the log of three nodes: two of two H100 in a rack, one of one A100. Job b waits
// until a has ended, since n2 is drained, and c runs on the A100.
const fleet = `{"norn":"eventlog","version":1,"world":"kube","policy":"fifo","cluster":"prod","origin":"2026-03-04T09:00:00Z","types":[{"name":"NVIDIA-H100-80GB-HBM3"},{"name":"A100"}],"domains":[{"level":"rack","name":"r1"}],"slots":["rdma"]}
{"t":0,"e":"node-add","name":"n1","gpus":[[0,2]],"cpu":8,"mem":1024,"domain":1,"slots":[2],"labels":["host=n1","zone=x"]}
{"t":0,"e":"node-add","name":"n2","gpus":[[0,2]],"cpu":8,"mem":1024,"domain":1,"slots":[2],"labels":["host=n2","zone=x"]}
{"t":0,"e":"node-add","name":"old-1","gpus":[[1,1]]}
{"t":1,"e":"node-set","n":1,"health":"cordoned","why":"on-hold","text":"fans"}
{"t":10,"e":"submit","j":0,"spec":{"job":"t/a","submit":10,"gpus":2,"user":"ann","types":"NVIDIA-H100-80GB-HBM3"}}
{"t":10,"e":"start","j":0,"on":[{"n":0,"d":[0,1]}]}
{"t":20,"e":"submit","j":1,"spec":{"job":"t/b","submit":20,"gpus":2,"user":"bob","types":"NVIDIA-H100-80GB-HBM3"}}
{"t":20,"e":"wait","j":1,"why":"need-gpus","need":2}
{"t":30,"e":"submit","j":2,"spec":{"job":"t/c","submit":30,"gpus":1,"user":"bob","types":"A100"}}
{"t":110,"e":"end","j":0,"outcome":"done"}
{"t":110,"e":"start","j":1,"on":[{"n":0,"d":[0,1]}]}
{"t":110,"e":"start","j":2,"on":[{"n":2,"d":[4]}]}
{"t":210,"e":"end","j":1,"outcome":"done"}
{"t":210,"e":"end","j":2,"outcome":"done"}
`

func fleetHistory(t *testing.T) *whatif.History {
	t.Helper()
	r, err := eventlog.NewReader(strings.NewReader(fleet), "fleet.log")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h, err := whatif.Read(r, replay.Stretch{}, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Nodes are added as those with the same GPUs are, and removed by number or by name.
func TestWithNodes(t *testing.T) {
	h := fleetHistory(t)
	m, err := h.WithNodes("2x2:H100+1x4:B200/64c", "old-*")
	if err != nil {
		t.Fatal(err)
	}
	site, err := m.Spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := site.Cluster
	if m.Name != "+2x2:H100+1x4:B200/64c -old-*" || c.Nodes() != 5 || m.Spec.GPUs() != 12 {
		t.Fatalf("%s: %d nodes, %d GPUs", m.Name, c.Nodes(), m.Spec.GPUs())
	}
	like, now := c.Node(0), c.Node(3)
	host, _ := now.Label("host")
	zone, _ := now.Label("zone")
	if now.Name != "added-2" || now.CPU != like.CPU || now.Memory != like.Memory || now.Slots != like.Slots || host != "added-2" || zone != "x" {
		t.Errorf("%+v, as it was %+v", now, like)
	}
	level, place, _ := c.Domain(now.Domain)
	if level != "rack" || place != "added" || c.Together(0, 3, "rack") || !c.Together(2, 3, "rack") {
		t.Errorf("it stands in %s %s", level, place)
	}
	if b := c.Node(4); b.CPU != 64*unit.One || c.Type(b.GPUs[0].Type).Name != "B200" || b.Memory != 0 {
		t.Errorf("%+v", b)
	}
	for remove, want := range map[string]string{"1x2:H100": "n1, old-1", "n1": "n2, old-1", "n1,1x1:A100": "", "1x1:A100": "n1, n2", "n*": "old-1"} {
		m, err := h.WithNodes("", remove)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "1x1:A100 is neither a node that was there nor") {
				t.Errorf("%s: %v", remove, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if have := nodesOf(t, m.Spec); have != want {
			t.Errorf("without %s there are %s, want %s", remove, have, want)
		}
	}
	for text, want := range map[[2]string]string{
		{"nonsense", ""}: "is not understood", {"1x2", ""}: "say of which type the GPUs are: NVIDIA-H100-80GB-HBM3, A100", {"", "3x2:H100"}: "3x2:H100: only 2 nodes such as these were there",
		{"", "n7"}: "n7 is neither a node that was there nor a number of them", {"", "*"}: "without * there is no node", {"1x2:100", ""}: "say of which type",
	} {
		if _, err := h.WithNodes(text[0], text[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func nodesOf(t *testing.T, s *clusterspec.Spec) string {
	t.Helper()
	site, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for id := range site.Cluster.Nodes() {
		out = append(out, site.Cluster.Node(cluster.NodeID(id)).Name)
	}
	return strings.Join(out, ", ")
}

// The orders of people are given again to the nodes that are still there: with a node more
// b need not wait; without n1 it waits for the only one, which is drained until the end.
func TestPlanWithNodes(t *testing.T) {
	h := fleetHistory(t)
	waits := func(add, remove string) (b float64, left int) {
		t.Helper()
		m, err := h.WithNodes(add, remove)
		if err != nil {
			t.Fatal(err)
		}
		q := whatif.Question{History: h, Machines: []*whatif.Machine{m}, Estimates: estimates(t, "believed")}
		p, err := q.Answer(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		last := p.Rows[len(p.Rows)-1]
		if want := "fifo, " + m.Name; last.Name != want {
			t.Errorf("the row is %s, want %s", last.Name, want)
		}
		if !strings.Contains(strings.Join(p.Assumptions(), "\n"), "Added nodes are like earlier ones with the same GPUs") {
			t.Errorf("%q", p.Assumptions())
		}
		return last.Wait.Max.Seconds(), last.Left
	}
	if b, left := waits("1x2:H100", ""); b > 20 || left > 0 {
		t.Errorf("with a node more, a job waits for %v s, %d are left", b, left)
	}
	if b, left := waits("", "n1"); b < 190 || left > 0 {
		t.Errorf("without n1 the longest wait is %v s, %d are left", b, left)
	}
	if b, left := waits("", "1x1:A100"); left != 1 || b > 100 {
		t.Errorf("without the A100 %d jobs are left, the longest wait is %v s", left, b)
	}
}

// Clusters of several sizes, of a history and of a described one: a number means nodes such
// as there are most of.
func TestGrown(t *testing.T) {
	h := fleetHistory(t)
	all, err := h.Grown("1, -1,+1x4:B200/64c")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.Name+": "+nodesOf(t, m.Spec))
	}
	if want := "+1 node: n1, n2, old-1, added-1; -1 node: n1, old-1; +1x4:B200/64c: n1, n2, old-1, added-1"; strings.Join(got, "; ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	for text, want := range map[string]string{"0": "write 1 node or more", "": "write a number of nodes", "2,": "write a number of nodes", "-3": "-3: only 2 nodes such as these were there", "2,x": "is not understood", "1x2": "say of which type"} {
		if _, err := h.Grown(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	q := whatif.Question{History: h, Machines: all[:2], Estimates: estimates(t, "believed")}
	p, err := q.Answer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	j := p.JSON()
	if len(j.Growths) != 1 || len(j.Growths[0].Points) != 3 || j.Growths[0].Points[0].Growth != "-1 node" || j.Growths[0].Points[1].Growth != "" {
		t.Errorf("%+v", j.Growths)
	}
}

// GPUs more and fewer of one machine, of a history and of a described one; the waits under each
// are beside those of the machine as it is.
func TestGrownGPUs(t *testing.T) {
	h := history(t, same, replay.Stretch{})
	all, err := h.Grown("1gpu, -1 GPU,+6gpus")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, fmt.Sprint(m.Name, " ", m.Spec.GPUs(), " ", m.Grow))
	}
	if want := "+1 GPU 3 true, -1 GPU 1 true, +6 GPUs 8 true"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	for text, want := range map[string]string{"-2gpus": "one at least", "70gpus": "64 are the most", "0gpus": "is not understood", "gpus": "is not understood"} {
		if _, err := h.Grown(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	q := whatif.Question{History: h, Machines: all, Estimates: estimates(t, "believed")}
	p, err := q.Answer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	g := p.JSON().Growths
	if len(g) != 1 || len(g[0].Points) != 4 || g[0].Points[1].Growth != "" || g[0].Points[3].GPUs != 8 || g[0].Points[3].Wait.Mean > g[0].Points[1].Wait.Mean {
		t.Errorf("%+v", g)
	}
	if _, err := fleetHistory(t).Grown("1gpu"); err == nil || !strings.Contains(err.Error(), "one machine whose GPUs are of one type") {
		t.Errorf("of a cluster: %v", err)
	}
	spec, err := clusterspec.Parse("8:A100")
	if err != nil {
		t.Fatal(err)
	}
	grown, err := whatif.Grow(spec, "-4gpus,8gpus")
	if err != nil || grown[0].Name != "-4 GPUs" || grown[0].Spec.GPUs() != 4 || grown[1].Spec.GPUs() != 16 || spec.GPUs() != 8 {
		t.Errorf("%+v, %v", grown, err)
	}
}

// Nodes that a cluster file has come later, are down, or are used by others stay so.
func TestGrowDescribed(t *testing.T) {
	spec, err := clusterspec.Parse("2x8:A100")
	if err != nil {
		t.Fatal(err)
	}
	all, err := whatif.Grow(spec, "2,-1,1x4:H100")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range all {
		got = append(got, fmt.Sprint(g.Name, " ", g.Spec.GPUs()))
	}
	if want := "+2 nodes 32, -1 node 8, +1x4:H100 20"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	text := "nodes:\n  - {count: 1, gpus: 8xA100, health: cordoned}\n  - {count: 1, gpus: 8xA100, foreign: {gpus: 1}}\n  - {count: 1, gpus: 8xA100, at: 1h}\n"
	if spec, err = clusterspec.ParseYAML("cluster.yaml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if all, err = whatif.Grow(spec, "1"); err != nil {
		t.Fatal(err)
	}
	site, err := all[0].Spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := site.Cluster
	if c.Nodes() != 3 || c.Health(0) != cluster.Cordoned || len(c.Foreign(1).GPUs) != 1 || c.Health(2) != cluster.Up || all[0].Spec.Nodes[len(all[0].Spec.Nodes)-1].At != time.Hour {
		t.Errorf("%d nodes, %v, %+v, %+v", c.Nodes(), c.Health(0), c.Foreign(1), all[0].Spec.Nodes)
	}
	if _, err := whatif.Grow(spec, "-9"); err == nil {
		t.Error("nine nodes fewer than two")
	}
}
