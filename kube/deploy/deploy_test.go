package deploy_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/norn-scheduler/norn/kube/deploy"
)

var update = flag.Bool("update", false, "write the files of the chart and of the base anew")

// TestFiles: the chart and the base of this folder are what the template makes.
func TestFiles(t *testing.T) {
	helm, err := deploy.Helm(deploy.ChartVersion)
	if err != nil {
		t.Fatal(err)
	}
	kustomize, err := deploy.Kustomize(deploy.Default())
	if err != nil {
		t.Fatal(err)
	}
	for dir, files := range map[string][]deploy.File{"helm": helm, "kustomize": kustomize} {
		for _, f := range files {
			path := filepath.Join(dir, filepath.FromSlash(f.Path))
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(f.Text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if have, err := os.ReadFile(path); err != nil || string(have) != f.Text {
				t.Errorf("%s is not what the template makes (go test ./kube/deploy -update writes it): %v", path, err)
			}
		}
	}
}

// TestChart: the chart makes the objects that the manifests have, the namespace aside. The
// test fills it in as Helm would.
func TestChart(t *testing.T) {
	files, err := deploy.Helm(deploy.ChartVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, admission := range []bool{true, false} {
		s := deploy.Settings{Namespace: "other", Image: "r.example.com/n:1", Policy: "tiresias(limits=3600)", Defrag: 2, Stop: "checkpoint", Nodes: "pool in (a, b)", Replicas: 3, Admission: admission}
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(files[1].Text), &values); err != nil {
			t.Fatal(err)
		}
		if len(values) != 7 {
			t.Errorf("values %v", values)
		}
		for k, v := range map[string]any{"image": s.Image, "policy": s.Policy, "defrag": "2", "stop": s.Stop, "nodes": s.Nodes, "replicas": s.Replicas, "admission": admission} {
			if _, there := values[k]; !there {
				t.Errorf("there is no value %s", k)
			}
			values[k] = v
		}
		chart, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"quote": strconv.Quote}).Parse(files[2].Text)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := chart.Execute(&out, map[string]any{"Values": values, "Release": map[string]any{"Namespace": s.Namespace}}); err != nil {
			t.Fatal(err)
		}
		have, err := deploy.Objects(out.String())
		if err != nil {
			t.Fatal(err)
		}
		text, err := deploy.Manifests(s)
		if err != nil {
			t.Fatal(err)
		}
		want, err := deploy.Objects(text)
		if err != nil {
			t.Fatal(err)
		}
		if want = want[1:]; len(have) != len(want) || admission != (len(have) > 10) {
			t.Fatalf("the chart has %d objects, the manifests %d", len(have), len(want))
		}
		for i := range have {
			if !reflect.DeepEqual(have[i].Object, want[i].Object) {
				t.Errorf("the chart has\n%v\nthe manifests\n%v", have[i].Object, want[i].Object)
			}
		}
	}
}

// TestRefuses: settings that no cluster would take are refused.
func TestRefuses(t *testing.T) {
	for _, change := range []func(*deploy.Settings){
		func(s *deploy.Settings) { s.Namespace = "a: b" },
		func(s *deploy.Settings) { s.Image = "" },
		func(s *deploy.Settings) { s.Replicas = 0 },
		func(s *deploy.Settings) { s.Defrag = 0.5 },
	} {
		s := deploy.Default()
		change(&s)
		if text, err := deploy.Manifests(s); err == nil {
			t.Errorf("%+v makes %s", s, text)
		}
	}
}
