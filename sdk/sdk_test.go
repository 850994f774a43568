// Package sdk_test runs the tests of the Python package, and holds it, the
// examples and the description of the protocol against package api.
package sdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/norn-scheduler/norn/api"
)

// python is the interpreter to test with: that of the distribution, since that is
// the one with its PyTorch, or whatever is there.
func python(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3"
	}
	path, err := exec.LookPath("python3")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatal("python3 is missing: continuous integration needs it")
	}
	t.Skip("python3 is missing")
	return ""
}

// run runs Python in the folder of the package.
func run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python(t), args...)
	cmd.Dir = "python"
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("python3 %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	out := run(t, "-W", "error", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", ".")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "skipped") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if !strings.Contains(out, "\nOK") {
		t.Errorf("no tests were run:\n%s", out)
	}
}

// The package has the fields that Norn has, and no others.
func TestFields(t *testing.T) {
	out := run(t, "-c", `
import dataclasses, json, norn
print(json.dumps({c.__name__: [f.name for f in dataclasses.fields(c)] for c in (norn.Report, norn.Order, norn.Allocation, norn.Checkpoint)}))`)
	var have map[string][]string
	if err := json.Unmarshal([]byte(out), &have); err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{api.Report{}, api.Order{}, api.Allocation{}, api.Checkpoint{}} {
		typ := reflect.TypeOf(v)
		want := fields(typ)
		slices.Sort(have[typ.Name()])
		if !slices.Equal(have[typ.Name()], want) {
			t.Errorf("%s\n has %v\nwant %v", typ.Name(), have[typ.Name()], want)
		}
	}
}

// fields are the names of a struct's fields in JSON, sorted.
func fields(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// The page about the protocol names every field and every order.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, v := range []any{api.Report{}, api.Order{}, api.Allocation{}, api.Checkpoint{}} {
		for _, f := range fields(reflect.TypeOf(v)) {
			names[f] = true
		}
	}
	for _, k := range []api.OrderKind{api.GoOn, api.StopNow, api.BatchSize} {
		names[string(k)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("docs/protocol.md does not tell of %s", name)
		}
	}
}

// The examples of reports, orders and allocations on the page are valid.
func TestProtocolExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var into any
		switch {
		case strings.Contains(line, `"kind"`):
			into = &api.Order{}
		case strings.Contains(line, `"run"`):
			into = &api.Allocation{}
		default:
			into = &api.Report{}
		}
		seen[fmt.Sprintf("%T", into)]++
		if err := strict([]byte(line), into); err != nil {
			t.Errorf("docs/protocol.md: %s: %v", line, err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("docs/protocol.md shows only %v", seen)
	}
}

// Every job file of the examples is a job that can be submitted.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "examples", "*", "job.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("examples %v: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		var spec api.JobSpec
		if err := strict(data, &spec); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(spec.Command) < 2 || spec.Command[0] != "python3" {
			t.Errorf("%s: its command is %q", file, spec.Command)
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), spec.Command[1])); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// strict reads JSON that has no fields but those of v.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
