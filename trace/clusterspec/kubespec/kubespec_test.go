package kubespec_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/clusterspec/kubespec"
)

// read imports texts as files of one cluster, and tells the remarks by lines.
func read(t testing.TB, texts ...string) (*clusterspec.Spec, string, error) {
	t.Helper()
	var im kubespec.Import
	for i, text := range texts {
		if err := im.Read(fmt.Sprintf("file%d", i+1), strings.NewReader(text)); err != nil {
			return nil, "", err
		}
	}
	spec, remarks, err := im.Spec()
	var told strings.Builder
	for i := range remarks {
		told.WriteString(remarks[i].String() + "\n")
	}
	return spec, told.String(), err
}

func file(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestImport holds a cluster of eight nodes with Kueue against the description that a user
// gets of it, and against what is told beside it.
func TestImport(t *testing.T) {
	spec, told, err := read(t, file(t, "testdata/nodes.json"), file(t, "testdata/kueue.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(spec.YAML()), file(t, "testdata/cluster.yaml"); got != want {
		t.Errorf("the description is\n%s\nwant\n%s", got, want)
	}
	if want := file(t, "testdata/remarks.txt"); told != want {
		t.Errorf("told is\n%s\nwant\n%s", told, want)
	}
	other, _, err := read(t, file(t, "testdata/kueue.yaml"), file(t, "testdata/nodes.json"))
	if err != nil || !bytes.Equal(other.YAML(), spec.YAML()) {
		t.Errorf("in the other order: %v\n%s", err, other.YAML())
	}
	back, err := clusterspec.ParseYAML("cluster.yaml", spec.YAML())
	if err != nil || !reflect.DeepEqual(back, spec) {
		t.Errorf("read again it is another: %v", err)
	}
	site, err := spec.Build()
	if err != nil || site.Cluster.Nodes() != 8 || spec.GPUs() != 56 {
		t.Errorf("%d GPUs, %v", spec.GPUs(), err)
	}
}

// bare is a node with so many GPUs, as JSON.
func bare(name string, gpus int, more string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q},"spec":{},"status":{"allocatable":{"cpu":"8","memory":"32Gi","nvidia.com/gpu":"%d"},`+
		`"conditions":[{"type":"Ready","status":"True"}]}%s}`, name, gpus, more)
}

// tenants writes them in short.
func tenants(s *clusterspec.Spec) string {
	var out []string
	for _, t := range s.Tenants {
		one := fmt.Sprintf("%s<%s %v/%v", t.Name, t.Parent, t.Guarantee, t.Limit)
		if t.Weight != 0 {
			one += fmt.Sprintf(" x%g", t.Weight)
		}
		out = append(out, one)
	}
	return strings.Join(out, "; ")
}

// kueue is a ClusterQueue or Cohort with a quota of GPUs.
func kueue(kind, name, spec, quota string) string {
	return fmt.Sprintf(`{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":%q,"metadata":{"name":%q},"spec":{%s"resourceGroups":[{"flavors":[{"name":"f","resources":[{"name":"nvidia.com/gpu",%s}]}]}]}}`, kind, name, spec, quota)
}

// TestQueues has what becomes of the queues of each system, on 16 GPUs, and what is told.
func TestQueues(t *testing.T) {
	node := bare("n1", 16, "")
	volcano := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":%q},"spec":{%s}}`, name, spec)
	}
	kai := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"scheduling.run.ai/v2","kind":"Queue","metadata":{"name":%q},"spec":{%s}}`, name, spec)
	}
	norn := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"norn-scheduler.github.io/v1alpha1","kind":"Queue","metadata":{"name":%q},"spec":{%s}}`, name, spec)
	}
	for name, c := range map[string]struct {
		queues []string
		want   string
		told   string // a part of it
	}{
		"alone it borrows nothing":   {[]string{kueue("ClusterQueue", "a", "", `"nominalQuota":8`)}, "a< 8/8", ""},
		"in a cohort without limit":  {[]string{kueue("ClusterQueue", "a", `"cohort":"c",`, `"nominalQuota":"8"`)}, "c< 0/0; a<c 8/0", ""},
		"in a cohort with a limit":   {[]string{kueue("ClusterQueue", "a", `"cohortName":"c",`, `"nominalQuota":"8","borrowingLimit":"4"`)}, "c< 0/0; a<c 8/12", ""},
		"weight":                     {[]string{kueue("ClusterQueue", "a", `"fairSharing":{"weight":"500m"},`, `"nominalQuota":"8"`)}, "a< 8/8 x0.5", ""},
		"no weight":                  {[]string{kueue("ClusterQueue", "a", `"fairSharing":{"weight":"0"},`, `"nominalQuota":"8"`)}, "a< 8/8", "weights of 0, which are 1 now: 1 (a)"},
		"no quota":                   {[]string{kueue("ClusterQueue", "a", "", `"nominalQuota":"0"`)}, "a< 0/0", "limits of 0 GPUs, which are no limit now: 1 (a)"},
		"a cohort has its own":       {[]string{kueue("Cohort", "c", "", `"nominalQuota":"4"`), kueue("ClusterQueue", "a", `"cohort":"c",`, `"nominalQuota":"8"`)}, "c< 12/0; a<c 8/0", ""},
		"a cohort like a queue":      {[]string{kueue("ClusterQueue", "a", `"cohort":"a",`, `"nominalQuota":"8"`)}, "a (cohort)< 0/0; a<a (cohort) 8/0", "names that something else has, too"},
		"cohorts in a circle":        {[]string{kueue("Cohort", "c", `"parentName":"d",`, `"nominalQuota":"1"`), kueue("Cohort", "d", `"parentName":"c",`, `"nominalQuota":"1"`)}, "d< 2/0; c<d 1/0", "go round in a circle, which is cut: 1 (d)"},
		"more than there is":         {[]string{kueue("ClusterQueue", "a", "", `"nominalQuota":"24"`), kueue("ClusterQueue", "b", `"cohort":"c",`, `"nominalQuota":"8"`)}, "a< 12/24; c< 0/0; b<c 4/0", "guarantees of more GPUs (32) than the nodes have (16)"},
		"Norn's own":                 {[]string{norn("p", `"guarantee":8,"limit":12,"weight":3`), norn("q", `"parent":"p","guarantee":10,"namespaces":["x"]`), norn("r", `"parent":"gone"`)}, "p< 10/12 x3; r< 0/0; q<p 10/0", "below the sum of those beneath them, which are raised to that: 1 (p)"},
		"Volcano":                    {[]string{volcano("root", `"weight":1`), volcano("v", `"parent":"root","weight":2,"deserved":{"nvidia.com/gpu":"6","cpu":4},"capability":{"nvidia.com/gpu":"10"}`), volcano("w", `"weight":1,"guarantee":{"resource":{"nvidia.com/gpu":2}}`)}, "v< 6/10 x2; w< 2/0", "reserved even while they are idle (guarantee): 1 (w)"},
		"KAI":                        {[]string{kai("d", `"resources":{"gpu":{"quota":8,"limit":-1,"overQuotaWeight":2},"cpu":{"quota":-1,"limit":-1}}`), kai("t", `"parentQueue":"d","resources":{"gpu":{"quota":-1,"limit":4}}`)}, "d< 8/0 x2; t<d 0/4", "no bound (-1), which have no guarantee now: 1 (t)"},
		"two systems with one name":  {[]string{norn("q", `"guarantee":1`), kai("q", `"resources":{}`)}, "q< 1/0; q (KAI)< 0/0", "names that something else has"},
		"an object that comes again": {[]string{norn("q", `"guarantee":1`), norn("q", `"guarantee":2`)}, "q< 1/0", "come again, of which the first counts: 1 (q)"},
	} {
		spec, told, err := read(t, node+"\n"+strings.Join(c.queues, "\n"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tenants(spec); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if !strings.Contains(told, c.told) {
			t.Errorf("%s: told is\n%swant %s", name, told, c.told)
		}
	}
}

// TestNodes has what nodes may be like beside those of the sample.
func TestNodes(t *testing.T) {
	spec, told, err := read(t,
		`{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"b","labels":{"topology.kubernetes.io/rack":"r1","own":"1"}},"status":{"allocatable":{"cpu":4,"memory":"8Gi","amd.com/gpu":"100"}}}]}`,
		bare("a", 2, "")+`{"apiVersion":"v1","kind":"Node","metadata":{"name":"c","labels":{"topology.kubernetes.io/zone":"z"}},"status":{"allocatable":{"cpu":"1","memory":"1Gi","nvidia.com/gpu":"1"},"capacity":{"nvidia.com/gpu":"2"},"conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `gpu-types:
  - name: nvidia.com/gpu
  - name: amd.com/gpu
topology:
  - level: zone
  - level: rack
nodes:
  - name: a
    count: 1
    gpus: [{type: nvidia.com/gpu, count: 2}]
    cpus: 8
    memory: 32GiB
  - name: b
    count: 1
    gpus: [{type: amd.com/gpu, count: 100}]
    cpus: 4
    memory: 8GiB
    pooled: true
    place: [no-zone, r1]
    health: cordoned
    labels: ["own=1"]
  - name: c
    count: 1
    gpus: [{type: nvidia.com/gpu, count: 1}]
    cpus: 1
    memory: 1GiB
    place: [z]
`
	if got := string(spec.YAML()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, want := range []string{"objects of kind Service, which are not read: 1 (s)", "it has not said that it is ready: 1 (b)", "a place called no- and the level: 1 (b)", "pods may not use, which are left out: 1 (c)"} {
		if !strings.Contains(told, want) {
			t.Errorf("told is\n%swant %s", told, want)
		}
	}
}

// TestErrors: what makes no sense names the file and the object.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "file1: is empty",
		"hello":                      "file1: ",
		`{"items":[`:                 "file1: it breaks off in the middle of an object",
		`{"items":{}}`:               "file1: byte 10: expected [",
		`{"kind":"NodeList"}`:        "file1: a NodeList without items",
		"kind: [\n":                  "file1: line 1",
		"a: &x 1\nb: *x\n":           "anchors, aliases",
		`{"kind":"List","items":[]}`: "no node was read",
		`{"kind":"Node","apiVersion":"v1","metadata":{}}`:       "file1: item 1: a Node without a name",
		strings.Replace(bare("n", 1, ""), `"8"`, `"-8"`, 1):     `file1: item 1: Node n: allocatable: cpu: "-8" is not a quantity`,
		strings.Replace(bare("n", 1, ""), `"8"`, `{}`, 1):       "Node n: {} is no quantity",
		bare("n", 9999999, ""):                                  "Node n: 9999999 of nvidia.com/gpu are more than a node has",
		kueue("ClusterQueue", "q", "", `"nominalQuota":"many"`): `ClusterQueue q: nominalQuota of flavor f: nvidia.com/gpu: "many" is not a quantity`,
		`{"kind":"Queue","apiVersion":"norn-scheduler.github.io/v1alpha1","metadata":{"name":"q"},"spec":{"guarantee":-1}}`: "Queue q: -1: guarantee, limit and weight",
	} {
		if _, _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzImport reads anything: nothing panics, and each cluster can be written, read again
// and built.
func FuzzImport(f *testing.F) {
	f.Add([]byte(file(f, "testdata/nodes.json")))
	f.Add([]byte(file(f, "testdata/kueue.yaml")))
	f.Add([]byte(bare("n", 8, "") + kueue("ClusterQueue", "q", `"cohort":"c",`, `"nominalQuota":"4"`)))
	f.Add([]byte("apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {nvidia.com/gpu: 3}}\n---\nkind: Queue\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			t.Skip("too long to be of use")
		}
		kubespec.Is(text)
		var im kubespec.Import
		if err := im.Read("fuzz", bytes.NewReader(text)); err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz: ") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		spec, _, err := im.Spec()
		if err != nil {
			return
		}
		back, err := clusterspec.ParseYAML("again", spec.YAML())
		if err != nil || !reflect.DeepEqual(back, spec) {
			t.Fatalf("%v\n%s", err, spec.YAML())
		}
		if _, err := spec.Build(); err != nil {
			t.Fatal(err)
		}
	})
}
