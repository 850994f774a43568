package norn_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path of this module.
const module = "github.com/norn-scheduler/norn"

// ring is how far out a package lives: 1 pure, 2 engine, 3 world.
type ring int

// rings says where each package lives. A name that ends in /... stands for all
// packages below it too; the longest name that applies counts. A package that
// is not here fails the test: its author says where it belongs.
var rings = map[string]ring{
	"cluster/...": 1, "job": 1, "tenant": 1, "perf/...": 1, "place": 1, "state/...": 1, "sched": 1, "solve/...": 1, "policy/...": 1, "internal/jsontext": 1,

	"solve/highs": 2, "engine": 2, "sim/...": 2, "eventlog/...": 2, "trace/...": 2, "report/...": 2, "docs/...": 2, "experiment/...": 2, "internal/published/...": 2,
	"internal/fileio": 2, "internal/grid": 2, "internal/history/...": 2, "internal/kubelist": 2, "internal/oracle": 2, "internal/palette": 2, "internal/regime": 2, "internal/titan": 2, "internal/shared": 2, "internal/sealed": 2, "internal/workers": 2, "internal/longtest": 2, "internal/yamltext": 2,

	"api/...": 3, "sdk/...": 3, "cmd/...": 3, "live/...": 3, "local/...": 3, "kube/...": 3, "examples/...": 3,
	"internal/bench":               3, // a program that measures others
	"internal/browser":             3, // tests open pages by it
	"internal/release":             3, // a program, and a module of its own, that makes a release
	"internal/soak":                3, // a program that does harm to others
	"trace/gen/internal/calibrate": 3, // a program that writes the tables of trace/gen
}

// pureImports are the packages of the standard library that ring 1 may use:
// none of them can reach a clock, a file, the network or another goroutine,
// but for the functions in impure.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "encoding/binary", "errors", "fmt", "hash/fnv", "iter", "maps", "math", "math/big",
	"math/bits", "math/cmplx", "math/rand/v2", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf16", "unicode/utf8",
}

// impure are the functions of allowed packages that ring 1 may not use.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"iter": {"Pull", "Pull2"}, // each starts a coroutine
}

// seeded are the names of math/rand and math/rand/v2 that need a source given
// to them; every other one draws from the global source.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "NewSource", "Rand", "PCG", "ChaCha8", "Zipf", "Source", "Source64"}

// ringOf finds the ring of a package by its path inside the module.
func ringOf(pkg string) (ring, bool) {
	if r, ok := rings[pkg]; ok {
		return r, true
	}
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if r, ok := rings[dir+"/..."]; ok {
			return r, true
		}
	}
	return 0, false
}

// goFile is one file that is part of a package, tests aside.
type goFile struct {
	pkg  string // path inside the module
	file *ast.File
	set  *token.FileSet
}

// faults lists what a file does that its ring does not allow.
func (f *goFile) faults() []string {
	var out []string
	bad := func(at token.Pos, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s: %s", f.set.Position(at), fmt.Sprintf(format, args...)))
	}
	r, known := ringOf(f.pkg)
	if !known {
		bad(f.file.Package, "package %s belongs to no ring: add it to the table of this test", f.pkg)
		return out
	}
	names := map[string]string{} // what an import is called here -> its path
	for _, imp := range f.file.Imports {
		target, _ := strconv.Unquote(imp.Path.Value) // the parser has accepted it
		name := path.Base(target)
		if name == "v2" {
			name = path.Base(path.Dir(target))
		}
		if imp.Name != nil {
			name = imp.Name.Name
		}
		if name == "." {
			bad(imp.Pos(), "imports %s with a dot", target)
		}
		names[name] = target
		if why := f.arrow(r, target); why != "" {
			bad(imp.Pos(), "%s", why)
		}
	}
	ast.Inspect(f.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				bad(n.Pos(), "has an init function")
			}
		case *ast.GoStmt:
			if r == 1 {
				bad(n.Pos(), "starts a goroutine in ring 1")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && r == 1 && impureName(names[x.Name], n.Sel.Name) {
				bad(n.Pos(), "uses %s.%s in ring 1", x.Name, n.Sel.Name)
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && r == 1 && (x.Name == "print" || x.Name == "println") {
				bad(n.Pos(), "writes to the standard error in ring 1")
			}
		}
		return true
	})
	return out
}

// arrow says what is wrong with an import, or nothing.
func (f *goFile) arrow(from ring, target string) string {
	if strings.HasPrefix(target, "k8s.io/") || strings.HasPrefix(target, "sigs.k8s.io/") {
		if f.pkg == "kube" || strings.HasPrefix(f.pkg, "kube/") || f.pkg == "cmd/norn-kube" {
			return ""
		}
		return fmt.Sprintf("imports %s: only kube and cmd/norn-kube may", target)
	}
	inside, ours := strings.CutPrefix(target, module+"/")
	switch {
	case ours:
		to, known := ringOf(inside)
		if !known {
			return fmt.Sprintf("imports %s, which belongs to no ring", target)
		}
		if to > from {
			return fmt.Sprintf("imports %s of ring %d from ring %d: imports point inward only", inside, to, from)
		}
	case from == 1 && !slices.Contains(pureImports, target):
		return fmt.Sprintf("imports %s, which ring 1 may not", target)
	}
	return ""
}

func impureName(pkg, name string) bool {
	if pkg == "math/rand" || pkg == "math/rand/v2" {
		return !slices.Contains(seeded, name)
	}
	return slices.Contains(impure[pkg], name)
}

// parse reads the text of a file of a package.
func parse(set *token.FileSet, pkg, name string, text any) (*goFile, error) {
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &goFile{pkg: pkg, file: file, set: set}, nil
}

// sources are the Go files of the module, tests aside.
func sources(t *testing.T) []*goFile {
	t.Helper()
	var files []*goFile
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "vendor"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parse(set, filepath.ToSlash(filepath.Dir(p)), p, nil)
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRings holds every package of the module to its ring (docs/design.md).
func TestRings(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range sources(t) {
		seen[f.pkg] = true
		for _, fault := range f.faults() {
			t.Error(fault)
		}
	}
	for _, pkg := range []string{"cluster", "sched", "engine", "sim", "cmd/norn"} {
		if !seen[pkg] {
			t.Errorf("package %s was not looked at", pkg)
		}
	}
}

// TestRingsFinds shows that the check can fail: each snippet breaks one rule.
func TestRingsFinds(t *testing.T) {
	cases := []struct {
		pkg, text string
		want      string // part of the fault; empty: none
	}{
		{"job", `import "github.com/norn-scheduler/norn/cluster/unit"`, ""},
		{"job", `import "github.com/norn-scheduler/norn/engine"`, "imports engine of ring 2 from ring 1"},
		{"policy/fifo", `import "github.com/norn-scheduler/norn/sim"`, "imports sim of ring 2 from ring 1"},
		{"engine", `import "github.com/norn-scheduler/norn/cmd/norn"`, "imports cmd/norn of ring 3 from ring 2"},
		{"engine", `import "github.com/norn-scheduler/norn/sched"`, ""},
		{"job", `import "github.com/norn-scheduler/norn/nowhere"`, "which belongs to no ring"},
		{"nowhere", ``, "belongs to no ring: add it"},
		{"internal/other", ``, "belongs to no ring: add it"},
		{"sched", `import "time"; var x = time.Now()`, "uses time.Now in ring 1"},
		{"sched", `import "time"; var x = time.Now`, "uses time.Now in ring 1"},
		{"sched", `import "time"; var x = time.Since(time.Time{})`, "uses time.Since"},
		{"sched", `import clock "time"; func f() { clock.Sleep(1) }`, "uses clock.Sleep"},
		{"sched", `import . "time"; var x = Now()`, "with a dot"},
		{"sched", `import "time"; var x time.Duration`, ""},
		{"engine", `import "time"; var x = time.Now()`, ""},
		{"state/dense", `import "math/rand/v2"; var x = rand.IntN(3)`, "uses rand.IntN"},
		{"state/dense", `import "math/rand/v2"; var x = rand.New(rand.NewPCG(1, 2)).IntN(3)`, ""},
		{"state/dense", `import "math/rand"; var x = rand.New(rand.NewSource(1))`, "imports math/rand, which ring 1 may not"},
		{"place", `func f() { go f() }`, "starts a goroutine"},
		{"experiment", `func f() { go f() }`, ""},
		{"place", `import "sync"`, "imports sync"},
		{"state", `import "os"`, "imports os"},
		{"state", `import "net/http"`, "imports net/http"},
		{"state", `import "io/ioutil"`, "imports io/ioutil"},
		{"state", `import "syscall"`, "imports syscall"},
		{"state", `import "github.com/spf13/cobra"`, "imports github.com/spf13/cobra"},
		{"policy/kit/queue", `import "k8s.io/api/core/v1"`, "only kube and cmd/norn-kube may"},
		{"engine", `import "k8s.io/client-go/rest"`, "only kube and cmd/norn-kube may"},
		{"cmd/norn", `import "k8s.io/client-go/rest"`, "only kube and cmd/norn-kube may"},
		{"cmd/norn-kube", `import "k8s.io/client-go/rest"`, ""},
		{"kube/jobs/batch", `import "k8s.io/api/core/v1"`, ""},
		{"tenant", `import "fmt"; func f() { fmt.Println() }`, "uses fmt.Println"},
		{"tenant", `func f() { println() }`, "standard error"},
		{"tenant", `import "iter"; func f(s iter.Seq[int]) { iter.Pull(s) }`, "uses iter.Pull"},
		{"engine", `func init() {}`, "has an init function"},
	}
	for _, c := range cases {
		f, err := parse(token.NewFileSet(), c.pkg, "snippet.go", "package p\n"+c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		got := strings.Join(f.faults(), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("package %s with %s:\n have %q\n want %q", c.pkg, c.text, got, c.want)
		}
	}
}
