package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/grid"
)

// manyNodes are n nodes: most with eight H100, some with four A100, one without GPUs; one
// in ten is not as it should be.
func manyNodes(n int) []api.Node {
	list := []api.Node{{Name: "login", Health: "up", CPUs: 16, CPUsAllocated: 2, Memory: 64 << 30, Labels: map[string]string{"zone": "x"}}}
	for i := range n - 1 {
		v := api.Node{
			Name: fmt.Sprintf("a-%d", i+1), Health: "up", Type: "H100", GPUs: 8, GPUsAllocated: 6, GPUsFree: 2, CPUs: 128, CPUsAllocated: 96, Memory: 2 << 40, MemAllocated: 1 << 40, Tasks: 3, Pool: "main",
			Jobs: []string{fmt.Sprintf("team-a/bert-%d", i), "team-b/gpt"}, Labels: map[string]string{"zone": "x", "rack": fmt.Sprint("r", i/8)}, Slots: []api.Slot{{Name: "rdma", Amount: 8, Free: 2}},
		}
		if i%7 == 6 {
			v.Type, v.GPUs, v.GPUsAllocated, v.GPUsFree, v.Labels["zone"] = "A100", 4, 0, 4, "y"
			v.Jobs, v.Tasks, v.Foreign = nil, 0, &api.Foreign{CPUs: 1.5, Memory: 3 << 30, Slots: map[string]int64{"pods": 11}}
		}
		switch i % 40 {
		case 3:
			v.Health, v.Note, v.GPUsFree = "drained", "new fans", 0
		case 6:
			v.Health, v.Note, v.GPUsFree = "drained", "", 0
		case 9:
			v.Health, v.Note, v.GPUsFree, v.GPUsAllocated, v.Jobs, v.Tasks = "down", "it has not answered for 5m", 0, 0, nil, 0
		case 12:
			v.GPUsBroken, v.GPUsFree, v.Others, v.Jobs = 1, 0, 3, append(v.Jobs, "team-c/x", "team-c/y")
			v.GPUsAllocated, v.Foreign = 6, &api.Foreign{GPUs: 1}
		}
		list = append(list, v)
	}
	return list
}

// clusterOf is a Norn that shares out n nodes.
func clusterOf(n int) *fake {
	f := busy()
	f.nodes, f.status.Nodes, f.status.Defrag = manyNodes(n), n, 2
	f.node = api.Node{Name: "prod", Health: "up"}
	f.list[0].Devices, f.list[0].Nodes, f.list[0].Namespace, f.list[0].Kind, f.list[0].Pods = []string{"a-1/0", "a-1/1", "a-2/0", "a-2/1"}, []string{"a-1", "a-2", "a-3", "a-4"}, "team-a", "Job", []string{"bert-0-x7k2p", "bert-1-9qlcm"}
	f.list[1].Devices, f.list[1].Nodes, f.list[1].Namespace, f.list[1].Kind = []string{"a-9/2"}, []string{"a-9"}, "team-b", "Pod"
	return f
}

// TestNodes: nodes as tables at several widths, and as one machine has them.
func TestNodes(t *testing.T) {
	var all strings.Builder
	list := manyNodes(14)
	for _, width := range []int{0, 100, 60} {
		var b strings.Builder
		if err := writeNodes(&b, list, "text", width); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "width %d\n%s\n", width, b.String())
		for line := range strings.Lines(b.String()) {
			if n := grid.Cells(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d cells at a width of %d: %s", n, width, line)
			}
		}
	}
	all.WriteString("wide\n")
	if err := writeNodes(&all, list, "wide", 0); err != nil {
		t.Fatal(err)
	}
	all.WriteString("\none machine\n")
	if err := writeNodes(&all, list[1:2], "text", 0); err != nil {
		t.Fatal(err)
	}
	golden(t, "nodes.txt", all.String())
}

// TestNodesVerb: which nodes are asked for, in which order they come, and in which formats.
func TestNodesVerb(t *testing.T) {
	f := clusterOf(50)
	for _, c := range []struct {
		args, want string
	}{
		{"nodes a-3 a-1 login -o name", "login\na-1\na-3\n"},
		{"nodes a-4? --state down -o name", ""},
		{"nodes --state draining,down --sort state -o name", "a-10\na-4\na-44\na-47\n"},
		{"nodes a-1? --sort state -o name", "a-10\na-13\na-11\na-12\na-14\na-15\na-16\na-17\na-18\na-19\n"},
		{"nodes a-1? --type A100 -o name", "a-14\n"},
		{"nodes --where zone=y,rack=r1 -o name", "a-14\n"},
		{"nodes --pool none -o json", "[]\n"},
	} {
		if out, _ := liveWorks(t, f, strings.Fields(c.args)...); out != c.want {
			t.Errorf("%s: %q, want %q", c.args, out, c.want)
		}
	}
	out, _ := liveWorks(t, f, "nodes", "--json")
	var back []api.Node
	if err := json.Unmarshal([]byte(out), &back); err != nil || len(back) != 50 || back[1].Labels["rack"] != "r0" {
		t.Errorf("%d nodes, %v", len(back), err)
	}
	out, _ = liveWorks(t, f, "nodes", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 51 || !slices.Equal(rows[0], nodeColumns) || rows[14][slices.Index(nodeColumns, "gpus_broken")] != "1" || rows[14][slices.Index(nodeColumns, "others_gpus")] != "1" {
		t.Errorf("%q, %v", rows[14], err)
	}
	for line, want := range map[string]string{
		"nodes a-1 b-7": "there is no node b-7", "nodes --state lost": "--state lost: write one of up, draining, drained, down",
		"nodes --sort size": "--sort size: write one of free, name, state, type", "nodes --where zone(": "where: ",
		"drain a-1 --where zone=x": "name what is meant or write a condition with --where, not both",
		"lend a-1 --where zone=x":  "name what is meant or write a condition with --where, not both", "reclaim a-1 --now --notice 5m": "a notice or --now, not both",
		"reclaim --count 0": "--count: say how many, at least one", "reclaim a-1 --notice soon": "--notice: ",
	} {
		if _, errOut, code := liveIn(t.Context(), shellOf(f), strings.Fields(line)...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q", line, code, errOut)
		}
	}
	if out, _ := liveWorks(t, f, "__complete", "drain", ""); !strings.HasPrefix(out, "login\tup\na-1\tH100 up\n") {
		t.Errorf("%q", out)
	}
}

// TestCluster: 200 nodes on the screen and in one picture, with pages, and what the other
// verbs tell of a cluster.
func TestCluster(t *testing.T) {
	f := clusterOf(200)
	var b strings.Builder
	v := &topView{now: noon}
	n := ask(t.Context(), nodePicker{daemon: f})
	if n.err != nil {
		t.Fatal(n.err)
	}
	v.take(n)
	show := func(what string) { fmt.Fprintf(&b, "%s\n%s\n", what, frameText(v.frame(100, 40), 100)) }
	show("first page")
	v.press(']', 10)
	show("second page")
	for range 100 {
		v.press(']', 10)
		v.frame(100, 40)
	}
	show("last page")
	v.press('n', 10)
	v.press(keyEnd, 30)
	show("all nodes")
	v.press(keyEscape, 10)
	for range 100 {
		v.press('[', 10)
	}
	if v.frame(100, 40); v.from != 0 {
		t.Errorf("before the first page there is node %d", v.from)
	}
	for width := 1; width <= 200; width += 13 {
		for height := 1; height <= 60; height++ {
			if lines := v.frame(width, height); len(lines) != height {
				t.Fatalf("%d lines at %dx%d", len(lines), width, height)
			}
		}
	}
	once, _ := liveWorks(t, clusterOf(200), "top", "--once")
	if got := strings.Count(once, "\n"); got < 200 || !strings.Contains(once, "a-199 ") || !strings.Contains(once, "200 nodes") {
		t.Errorf("%d lines:\n%s", got, once)
	}
	picked, _ := liveWorks(t, clusterOf(200), "top", "--once", "--node", "a-1?", "--state", "down,draining")
	b.WriteString("some nodes\n" + picked)
	status, _ := liveWorks(t, clusterOf(200), "status")
	b.WriteString("\nstatus\n" + status)
	golden(t, "cluster.txt", b.String())

	var back struct {
		Nodes []api.Node
		Jobs  []api.Job
	}
	out, _ := liveWorks(t, clusterOf(200), "top", "--json", "--node", "a-9")
	if err := json.Unmarshal([]byte(out), &back); err != nil || len(back.Nodes) != 1 || slices.ContainsFunc(back.Jobs, func(j api.Job) bool { return j.ID == "3" }) || back.Jobs[0].ID != "5" {
		t.Errorf("%+v, %v", back, err)
	}
	if _, errOut, code := liveIn(t.Context(), shellOf(busy()), "top", "--node", "a-1"); code == 0 || !strings.Contains(errOut, "this norn shares out one machine") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestJobsInCluster: lists of jobs tell where they are in a cluster, and what they are there.
func TestJobsInCluster(t *testing.T) {
	f := clusterOf(10)
	out, _ := liveWorks(t, f, "ps")
	if !strings.Contains(out, " a-1 to a-4 (4 nodes)\n") || !strings.Contains(out, " a-9\n") {
		t.Errorf("%s", out)
	}
	out, _ = liveWorks(t, f, "ps", "-o", "wide")
	if lines := strings.Split(out, "\n"); !strings.HasSuffix(lines[0], "NAMESPACE  KIND  PODS                        NODES") || !strings.HasSuffix(lines[1], "team-a     Job   bert-0-x7k2p, bert-1-9qlcm  a-1 to a-4") {
		t.Errorf("%s", out)
	}
	out, _ = liveWorks(t, f, "ps", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || !slices.Equal(rows[0], append(slices.Clip(jobColumns), clusterColumns...)) || rows[1][len(jobColumns)+3] != "a-1 a-2 a-3 a-4" {
		t.Errorf("%q, %v", rows, err)
	}
	f.why = api.Why{Job: f.list[0]}
	out, _ = liveWorks(t, f, "why", "3")
	for _, want := range []string{"running on a-1 to a-4 (4 nodes) for", "  is a Job of namespace team-a, with 2 pods: bert-0-x7k2p, bert-1-9qlcm\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
