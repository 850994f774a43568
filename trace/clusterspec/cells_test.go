package clusterspec

import (
	"strings"
	"testing"
)

// Cells of tenants are read, written and built, and those that cannot be had all at once are refused with a
// sentence that names what is wrong.
func TestCells(t *testing.T) {
	const nodes = "topology: [rack]\nnodes:\n  - {name: 'n{0}', count: 4, gpus: 8xV100, place: [r0]}\n  - {name: 'm{0}', count: 2, gpus: 4xK80, place: [r1]}\n"
	tenants := func(a, b string) string {
		return nodes + "tenants:\n  - {name: a, cells: '" + a + "'}\n  - {name: b, cells: '" + b + "'}\n"
	}
	s, err := ParseYAML("file", []byte(tenants(" @r1,V100:node = 2", "node=2")))
	if err != nil {
		t.Fatal(err)
	}
	if s.Tenants[0].Cells != "@r1, V100:node=2" {
		t.Errorf("cells are %q", s.Tenants[0].Cells)
	}
	again, err := ParseYAML("again", s.YAML())
	if err != nil || again.Tenants[0] != s.Tenants[0] {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
	site, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := site.Tenants.Lookup("b"); !ok || site.Tenants.At(id).Cells != "node=2" {
		t.Errorf("tenant b has cells %q", site.Tenants.At(id).Cells)
	}
	for _, c := range []struct{ a, b, want string }{
		{"node", "", "how many cells of which level"},
		{"node=0", "", "how many cells of which level"},
		{"node=1, node=2", "", "given twice"},
		{"3=1", "", `tenant "a": cells: 3=1: there are only 0; levels here are 1, 2, 4, node, rack`},
		{"V100:node=5", "", "V100:node=5: there are only 4"},
		{"P100:node=1", "", "P100:node=1: there are only 0"},
		{"@n9", "", "@n9 is neither a node nor a place"},
		{"@n1", "@n1", "pinned for two tenants"},
		{"@n1", "V100:rack=1", "1 cells too many of level rack of V100"},
		{"V100:node=4", "V100:2=1", "1 cells too many of level 2 of V100"},
	} {
		if _, err := ParseYAML("file", []byte(tenants(c.a, c.b))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: %v, want %q", c.a, c.b, err, c.want)
		}
	}
}
