package job

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
)

func TestParseSlots(t *testing.T) {
	for text, want := range map[string]Slots{
		"": "", " ": "", "rdma=1": "rdma=1", "rdma=1,pods=2": "pods=2|rdma=1", "b=2GiB| a=0 |c=7": "b=2147483648|c=7",
		"mem/huge-2Mi=512": "mem/huge-2Mi=512", "a=1125899906842624": "a=1125899906842624",
	} {
		got, err := ParseSlots(text)
		if err != nil || got != want {
			t.Errorf("%q is read as %q, %v, want %q", text, got, err, want)
		}
		if again, err := ParseSlots(string(got)); err != nil || again != got {
			t.Errorf("%q is read as %q, %v", got, again, err)
		}
	}
	for text, want := range map[string]string{
		"rdma": `"rdma": write a name and a whole number`, "rdma=": "whole number", "rdma=-1": "whole number", "rdma=0.5": "whole number", "=1": "the name of a counted resource",
		"a b=1": "the name", "a=1,a=2": "a is given twice", "a=2PiB": "a: an amount of 2251799813685248; from 0 to 2^50",
		"a=1,b=1,c=1,d=1,e=1,f=1,g=1": "7 counted resources: at most 6", strings.Repeat("x", 64) + "=1": "at most 63", "a=9223372036854775808": "whole number",
	} {
		if got, err := ParseSlots(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %q, %v, want an error with %q", text, got, err, want)
		}
	}
}

// TestSlotsOfDemand: amounts stand under the numbers that the cluster has for their
// names, and a name that it does not know is told.
func TestSlotsOfDemand(t *testing.T) {
	c := cluster.New()
	for _, name := range []string{"pods", "rdma"} {
		if _, err := c.AddSlot(name); err != nil {
			t.Fatal(err)
		}
	}
	d := GPUs(2)
	if all, lacks := d.Slots(c); all != nil || lacks != "" {
		t.Errorf("a demand for nothing counted asks for %v, lacks %q", all, lacks)
	}
	if d.Roles[0].Slots = "rdma=2"; d.Plain() || d.Check() != nil || d.String() != "2 x (1 GPU + 2 rdma)" {
		t.Errorf("%v: plain %v, wrong %v", &d, d.Plain(), d.Check())
	}
	d.Roles[1] = Role{Name: "ps", Tasks: 1, Slots: "pods=1"}
	if err := d.Check(); err != nil {
		t.Errorf("a role that asks for a counted resource alone: %v", err)
	}
	if all, lacks := d.Slots(c); lacks != "" || all[0] != (cluster.Slots{0, 2}) || all[1] != (cluster.Slots{1}) {
		t.Errorf("asks for %v, lacks %q", all, lacks)
	}
	d.Roles[1].Slots = "fpga=1|pods=1"
	if _, lacks := d.Slots(c); lacks != "fpga" {
		t.Errorf("lacks %q, want fpga", lacks)
	}
	d.Roles[1].Slots = "pods=1|fpga=1"
	if err := d.Check(); err == nil || !strings.Contains(err.Error(), "not how they are written") {
		t.Errorf("a text that is not canonical: %v", err)
	}
}
