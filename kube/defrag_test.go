package kube_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/policy/defrag"
)

// TestDefrag: two of four GPUs are free on each of two nodes, and a pod that wants four waits. A Job
// that saves its state is moved to the other node for it, and both run.
func TestDefrag(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:2], 10, func(o *kube.Options) {
		var err error
		if o.Defrag, err = defrag.Live(2); err != nil {
			t.Fatal(err)
		}
	})
	on := map[string][]string{} // the Jobs of a node
	for _, name := range []string{"a", "b", "c", "d"} {
		r.job(name, 1, 2, "100000s", saves)
		r.until(name+" runs", func() bool { return r.state("default/"+name) == api.Running })
		node := r.one("default/" + name).Nodes[0]
		on[node] = append(on[node], name)
	}
	if len(on) != 2 {
		t.Fatalf("they are on %v", on)
	}
	var left []string
	for _, jobs := range on {
		r.does(server.Cancel, "default/"+jobs[0])
		left = append(left, jobs[1])
	}
	r.until("two GPUs are free on each node", func() bool { return len(r.kubelet.Running()) == 2 })
	r.job("wide", 1, 4, "100000s", saves)
	r.until("the wide one runs", func() bool { return r.state("default/wide") == api.Running })
	r.until("the others do", func() bool { return len(r.kubelet.Running()) == 3 })
	wide, one, two := r.one("default/wide"), r.one("default/"+left[0]), r.one("default/"+left[1])
	if one.Nodes[0] != two.Nodes[0] || wide.Nodes[0] == one.Nodes[0] {
		t.Errorf("they run on %v, %v and %v", wide.Nodes, one.Nodes, two.Nodes)
	}
	if st, err := r.Status(background); err != nil || st.Defrag != 2 {
		t.Errorf("the status tells of moves that win %v times their cost: %v", st.Defrag, err)
	}
	moved, lives := 0, []string(nil)
	for _, j := range []api.Job{one, two} {
		w, err := r.Why(background, me, j.ID)
		if err != nil {
			t.Fatal(err)
		}
		life := strings.Join(w.Life, "\n")
		moved += strings.Count(life, ": makes room for job default/wide, which goes first")
		lives = append(lives, life)
		if j.Failures > 0 || j.Run > 2 {
			t.Errorf("%+v", j)
		}
	}
	if moved != 1 {
		t.Errorf("%d were moved:\n%s", moved, strings.Join(lives, "\n"))
	}
}
