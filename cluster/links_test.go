package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// TestLinkLayouts: GPUs of every machine have as many NVLinks as their chips, less those that go
// to processors.
func TestLinkLayouts(t *testing.T) {
	each := map[string]int{ // NVLinks of a GPU to others; negative: into switches; 0: not checked
		"dgx1-p100": 4, "dgx1": 6, "v100-quad": 0, "dgx2": -6, "a100-quad": 12, "dgx-a100": -12, "h100-quad": 18, "dgx-h100": -18, "dgx-b200": -18,
		"minsky": 2, "summit": 4, "torus-2d": 0, "pcie": 0, "pcie-switch": 0, "pcie-socket": 0, "nvswitch": 0,
	}
	for _, p := range LinkLayouts() {
		n := max(p.GPUs, 4)
		if p.GPUs == 0 {
			n = 5
		}
		l, err := p.Links(n)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		want, known := each[p.Name]
		if !known {
			t.Errorf("%s: nothing is known of its NVLinks", p.Name)
		}
		for i := range n {
			sum := 0
			for j := range n {
				if i == j {
					continue
				}
				link := l.Between(i, j)
				if link != l.Between(j, i) || link.GBps <= 0 {
					t.Errorf("%s: %d to %d is %+v, back it is %+v", p.Name, i, j, link, l.Between(j, i))
				}
				if want < 0 && int(link.Count) != -want {
					t.Errorf("%s: %d to %d is %+v", p.Name, i, j, link)
				}
				sum += int(link.Count)
			}
			if want > 0 && sum != want {
				t.Errorf("%s: GPU %d has %d NVLinks, want %d", p.Name, i, sum, want)
			}
		}
	}
}

// TestTorus: each of 16 GPUs is linked with four others by NVLink, and the farthest are four
// steps apart.
func TestTorus(t *testing.T) {
	l, err := LinkPreset("torus-2d", 16)
	if err != nil {
		t.Fatal(err)
	}
	near := func(i, j int) bool {
		if i == j || i/4 != j/4 && i%4 != j%4 {
			return false
		}
		d := (i/4 - j/4) + (i%4 - j%4)
		return d*d == 1 || d*d == 9
	}
	for i := range 16 {
		for j := range 16 {
			if i != j && (l.Between(i, j).Class == NVLink) != near(i, j) {
				t.Errorf("%d and %d are linked by %v", i, j, l.Between(i, j).Class)
			}
		}
	}
}

// TestLinkSpeeds: a speed that is not given is that of so many NVLinks of the generation, or
// that of the class.
func TestLinkSpeeds(t *testing.T) {
	l := NewLinks(2)
	for _, c := range []struct {
		link Link
		want float64
	}{
		{Link{Class: NVLink}, 25}, {Link{Class: NVLink, Count: 4, Gen: 1}, 80}, {Link{Class: NVLink, Count: 18, Gen: 4}, 450},
		{Link{Class: NVLink, Count: 18, Gen: 5}, 900}, {Link{Class: NVLink, Count: 2, GBps: 48}, 48}, {Link{Class: Socket}, 12}, {Link{Class: CrossSocket}, 9},
	} {
		if l.Connect(0, 1, c.link); l.Between(1, 0).GBps != c.want {
			t.Errorf("%+v has %v GB/s, want %v", c.link, l.Between(1, 0).GBps, c.want)
		}
	}
	if m := NewLinks(2); l.Equal(nil) || !l.Equal(m) || l.Equal(NewLinks(3)) { // the last one was between sockets
		t.Errorf("%+v and %+v", l, m)
	}
}

// TestSockets: which GPUs stand at one socket, by layout.
func TestSockets(t *testing.T) {
	for layout, want := range map[string]string{
		"minsky": "[0 0 1 1]", "summit": "[0 0 0 1 1 1]", "dgx1": "[0 0 0 0 1 1 1 1]", "dgx1-p100": "[0 0 0 0 1 1 1 1]",
		"pcie": "[0 0 0 0 1 1 1 1]", "pcie-switch": "[0 0 0 0 1 1 1 1]", "pcie-socket": "[0 0 0 0 1 1 1 1]", "nvswitch": "[0 0 0 0 0 0 0 0]",
		"torus-2d": "[0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3]",
	} {
		gpus := strings.Count(want, " ") + 1
		l, err := LinkPreset(layout, gpus)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(l.Sockets()); got != want {
			t.Errorf("%s: %s, want %s", layout, got, want)
		}
	}
}
