package podmap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace/podmap"
)

// TestLevels finds levels by their names and labels.
func TestLevels(t *testing.T) {
	l := podmap.DefaultLevels()
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{"rack": "rack", "topology.kubernetes.io/zone": "zone", "kubernetes.io/hostname": "node", "node": "node", "planet": ""} {
		if got, ok := l.Named(text); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for want, bad := range map[string]podmap.Levels{
		"is no name": {{Name: "", Keys: []string{"a"}}}, "no label": {{Name: "rack", Keys: nil}}, "a is a level of the topology twice": {{Name: "x", Keys: []string{"a"}}, {Name: "y", Keys: []string{"a"}}},
		"no name of a level": {{Name: "node", Keys: []string{"a"}}},
	} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestWithin reads what Norn's own annotation and those of others say.
func TestWithin(t *testing.T) {
	l := podmap.Levels{{Name: "zone", Keys: []string{"z"}}, {Name: "block", Keys: []string{"b"}}, {Name: "rack", Keys: []string{"r"}}}
	for _, c := range []struct {
		annotations map[string]string
		want        string
	}{
		{nil, " false []"},
		{map[string]string{"norn-scheduler.github.io/within": "rack"}, "rack false []"},
		{map[string]string{"norn-scheduler.github.io/within": "r, preferred"}, "rack true []"},
		{map[string]string{"norn-scheduler.github.io/within": "rack?"}, "rack true []"},
		{map[string]string{"norn-scheduler.github.io/within": "node,required"}, "node false []"},
		{map[string]string{"kueue.x-k8s.io/podset-required-topology": "b"}, "block false []"},
		{map[string]string{"kueue.x-k8s.io/podset-preferred-topology": "b"}, "block true []"},
		{map[string]string{"kueue.x-k8s.io/podset-preferred-topology": "other"}, " false [kueue.x-k8s.io/podset-preferred-topology]"},
		{map[string]string{"kueue.x-k8s.io/podset-required-topology": "b", "kueue.x-k8s.io/podset-slice-size": "2"}, "block false [kueue.x-k8s.io/podset-slice-size]"},
		{map[string]string{"kai.scheduler/topology-required-placement": "zone", "kai.scheduler/topology-preferred-placement": "rack"}, "zone false [kai.scheduler/topology-preferred-placement]"},
		{map[string]string{"volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "1"}, "rack false []"},
		{map[string]string{"volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier": "3"}, "zone true []"},
		{map[string]string{"volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier": "9"}, " false []"},
	} {
		level, prefer, ignored, err := l.Within(c.annotations)
		if got := fmt.Sprint(level, " ", prefer, " ", ignored); err != nil || got != c.want {
			t.Errorf("%v: %s, %v; want %s", c.annotations, got, err, c.want)
		}
	}
	for key, text := range map[string]string{
		"norn-scheduler.github.io/within": "planet", "kueue.x-k8s.io/podset-required-topology": "x", "kai.scheduler/topology-required-placement": "x",
	} {
		if _, _, _, err := l.Within(map[string]string{key: text}); err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "zone, block, rack, node") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, m := range []map[string]string{
		{"norn-scheduler.github.io/within": "rack, maybe"}, {"volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "4"},
	} {
		if _, _, _, err := l.Within(m); err == nil {
			t.Errorf("%v is no error", m)
		}
	}
}
