package local_test

import (
	"testing"

	"github.com/norn-scheduler/norn/api"
)

// One machine is a list of one node, with all that is told of the machine; it can be put
// out of use by its name, too.
func TestOneNode(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	id := h.submit(h.sh(1, awaits("enough")))
	h.until(id, api.Running)
	one, err := h.Node(background)
	if err != nil {
		t.Fatal(err)
	}
	list, err := h.Nodes(background, h.me, api.NodeQuery{Devices: true})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	n := list[0]
	if n.Name != one.Name || n.State() != "up" || n.GPUs != 2 || n.GPUsFree != 1 || n.GPUsAllocated != 1 || n.Tasks != 1 || len(n.Jobs) != 1 || n.Jobs[0] != id {
		t.Errorf("%+v", n)
	}
	if n.CPUs != one.CPUs || n.Memory != one.Memory || n.Disk.Path != one.Disk.Path || len(n.Devices) != 2 || len(n.Devices[0].Jobs) != 1 || n.Devices[0].Name != one.Devices[0].Name {
		t.Errorf("%+v, the machine is %+v", n, one)
	}
	if one.GPUs != 0 || one.Jobs != nil || one.Tasks != 0 {
		t.Errorf("the machine tells more than before: %+v", one)
	}
	for _, undo := range []bool{false, true} {
		if err := h.Drain(background, h.me, api.Drain{Devices: []string{"box"}, Undo: undo}); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "draining", true: "up"}[undo]
		if list, err = h.Nodes(background, h.me, api.NodeQuery{States: []string{want}}); err != nil || len(list) != 1 || len(list[0].Devices) > 0 {
			t.Errorf("%s: %+v, %v", want, list, err)
		}
	}
}
