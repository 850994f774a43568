package convert

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/tenant"
)

func queueOf(t testing.TB, text string) (*Queue, error) {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return ReadQueue(o)
}

// TestQueues: Queues are read, and become a tree of tenants.
func TestQueues(t *testing.T) {
	all := map[string]*Queue{}
	for _, text := range []string{
		`{metadata: {name: nlp}, spec: {parent: research, guarantee: 4, namespaces: [a, b]}, status: {gpuHours: 1.5}}`,
		`{metadata: {name: research}, spec: {guarantee: 8, limit: 16, weight: 3}, status: {gpuHours: 2}}`,
		`{metadata: {name: open}}`,
		`{metadata: {name: lost}, spec: {parent: nowhere}}`,
		`{metadata: {name: below}, spec: {parent: lost}}`,
		`{metadata: {name: left}, spec: {parent: right}}`,
		`{metadata: {name: right}, spec: {parent: left}}`,
	} {
		q, err := queueOf(t, text)
		if err != nil {
			t.Fatal(err)
		}
		all[q.Name] = q
	}
	tree, lost := Arrange(all)
	order := ""
	for _, q := range tree {
		order += q.Name + " "
	}
	if order != "open research nlp " {
		t.Errorf("order %s", order)
	}
	for name, want := range map[string]string{"lost": "its parent nowhere does not exist", "below": "nowhere of queue lost above it", "left": "circle", "right": "circle"} {
		if err := lost[name]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	tenants := tenant.NewTree(0)
	if err := AddTo(tenants, tree); err != nil || tenants.Len() != 4 {
		t.Fatal(err, tenants.Len())
	}
	r, n := tenants.At(tenants.Get("research")), tenants.At(tenants.Get("nlp"))
	if r.Guarantee != 8*unit.One || r.Limit != 16*unit.One || r.Weight != 3 || tenants.At(n.Parent) != r || n.Limit != tenant.Unlimited || n.Weight != 1 {
		t.Errorf("%+v, %+v", r, n)
	}
	if got := tenants.Usage(tenants.Get("nlp"), 0); got != 1.5*3600 {
		t.Errorf("nlp had used %v GPU-seconds", got)
	}
	if !all["nlp"].Admits("a") || all["nlp"].Admits("c") || !all["open"].Admits("c") {
		t.Error("who may use them")
	}
	if got := fmt.Sprint(Promised(tree, 4*unit.One)); got != "[Queues are guaranteed 8 GPUs together, the cluster has 4]" {
		t.Error(got)
	}
	all["nlp"].Guarantee = 9 * unit.One
	if got := fmt.Sprint(Promised(tree, 8*unit.One)); got != "[Queues below research are guaranteed 9 GPUs together, it has 8 itself]" {
		t.Error(got)
	}
}

// TestBadQueues: what is no Queue is refused with an error that names it.
func TestBadQueues(t *testing.T) {
	for text, want := range map[string]string{
		`{spec: {}}`: "without a name",
		`{metadata: {name: q}, spec: {guarantee: many}}`:         "a Queue:",
		`{metadata: {name: q}, spec: {guarantee: -1}}`:           "queue q: a guarantee of -1",
		`{metadata: {name: q}, spec: {guarantee: 2, limit: 1}}`:  "queue q: a limit of 1",
		`{metadata: {name: q}, spec: {limit: 0}}`:                "queue q: a limit of 0",
		`{metadata: {name: q}, spec: {weight: 0}}`:               "queue q: a weight of 0",
		`{metadata: {name: q}, spec: {guarantee: 100000000000}}`: "queue q: a guarantee",
	} {
		if _, err := queueOf(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
