package api

import "testing"

// Names in a row are packed, and nothing else is.
func TestPacked(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a-1": {"a-1"}, "a-1, a-2": {"a-1", "a-2"}, "a-1 to a-4, a-7": {"a-1", "a-2", "a-3", "a-4", "a-7"},
		"n008 to n010": {"n008", "n009", "n010"}, "n8 to n10": {"n8", "n9", "n10"}, "n08, n9, n010": {"n08", "n9", "n010"},
		"a1, b2, c3": {"a1", "b2", "c3"}, "a, b, c": {"a", "b", "c"}, "x1y, x2y, x3y": {"x1y", "x2y", "x3y"}, "1 to 3": {"1", "2", "3"},
		"a99999999999999999999, a100000000000000000000": {"a99999999999999999999", "a100000000000000000000"},
	} {
		if have := Packed(names); have != want {
			t.Errorf("%q: %q, want %q", names, have, want)
		}
	}
}

// A whole is the sum of its nodes; a node drains as long as jobs are there.
func TestWhole(t *testing.T) {
	w := Whole("c", []Node{{CPUs: 8, CPUsAllocated: 1, Memory: 2, GPUs: 4, GPUsFree: 1.5, GPUsAllocated: 2.5, Tasks: 2, Foreign: &Foreign{CPUs: 1}}, {CPUs: 4, GPUs: 4, GPUsBroken: 1, GPUsFree: 3}})
	if w.Name != "c" || w.CPUs != 12 || w.CPUsAllocated != 1 || w.Memory != 2 || w.GPUs != 8 || w.GPUsFree != 4.5 || w.GPUsAllocated != 2.5 || w.GPUsBroken != 1 || w.Tasks != 2 || w.Foreign.CPUs != 1 {
		t.Errorf("%+v", w)
	}
	for want, n := range map[string]Node{"up": {Health: "up", Tasks: 1}, "draining": {Health: "drained", Tasks: 1}, "drained": {Health: "drained"}, "down": {Health: "down", Tasks: 1}} {
		if n.State() != want {
			t.Errorf("%+v is %s, want %s", n, n.State(), want)
		}
	}
}
