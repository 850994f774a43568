package clusterimport_test

import (
	"os"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace/clusterimport"
)

// TestKubernetes imports what kubectl wrote, and refuses it beside files of Slurm.
func TestKubernetes(t *testing.T) {
	read := func(name string) clusterimport.File {
		text, err := os.ReadFile("../clusterspec/kubespec/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return clusterimport.File{Name: name, Text: text}
	}
	r, err := clusterimport.Import([]clusterimport.File{read("kueue.yaml"), read("nodes.json")}, clusterimport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := string(read("cluster.yaml").Text); string(r.Spec.YAML()) != want {
		t.Errorf("%s\nwant\n%s", r.Spec.YAML(), want)
	}
	if got := strings.Join(r.Read, "; "); got != "kueue.yaml: kubectl get, 7 objects; nodes.json: kubectl get, 8 objects" {
		t.Error(got)
	}
	found := false
	for _, l := range r.Lost {
		found = found || l.What == "taints that keep pods without GPUs off (nvidia.com/gpu), which are left out (gpu-1, gpu-2, gpu-3, ...)" && l.Times == 5
	}
	if !found || r.Policy != "" {
		t.Errorf("%+v", r.Lost)
	}
	slurm := clusterimport.File{Name: "nodes.txt", Text: []byte("NodeName=n1 CPUTot=8\n")}
	for want, f := range map[string]func() error{
		"nodes.txt: is not what kubectl get": func() error {
			_, err := clusterimport.Import([]clusterimport.File{read("nodes.json"), slurm}, clusterimport.Options{})
			return err
		},
		"in no partitions": func() error {
			_, err := clusterimport.Import([]clusterimport.File{read("nodes.json")}, clusterimport.Options{Pools: true})
			return err
		},
		"known are scontrol show node": func() error {
			_, err := clusterimport.Import([]clusterimport.File{{Name: "x", Text: []byte("hello")}}, clusterimport.Options{})
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
