package kube

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/kube/convert"
)

// TestRoomTake: a node has room for a pod when the very devices that it is given are free, and
// not when as many others are.
func TestRoomTake(t *testing.T) {
	gpus := func(devices string) *convert.Use {
		return &convert.Use{GPUs: map[string]int{"nvidia.com/gpu": 1 + strings.Count(devices, ",")}}
	}
	for _, c := range []struct {
		there []string // devices of the pods that are there, which have one GPU for each
		comes string
		fits  bool
	}{
		{nil, "2,3", true},
		{[]string{"0", "1"}, "2,3", true},
		{[]string{"0", "2"}, "2,3", false},
		{[]string{"0", "1", ""}, "2,3", false}, // a pod of others, whose device nobody knows, has the third
		{[]string{"0,1,2"}, "3", true},
		{[]string{"12"}, "2", true},
	} {
		r := &room{gpus: map[string]int{"nvidia.com/gpu": 4}, taken: map[string]bool{}}
		for _, devices := range c.there {
			r.take(gpus(devices), devices)
		}
		if fits := r.take(gpus(c.comes), c.comes); fits != c.fits {
			t.Errorf("beside %v there is room on %s: %v", c.there, c.comes, fits)
		}
	}
}
