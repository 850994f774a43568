package norn_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// hidden tells whether a package is out of reach for other modules.
func hidden(pkg string) bool {
	return strings.Contains("/"+pkg+"/", "/internal/")
}

// leaks lists the names of hidden packages of this module in what a file exports: its
// functions, the methods and fields of its types, and its variables. Another module can
// hardly use what mentions them.
func (f *goFile) leaks() []string {
	internal := map[string]bool{}
	for _, imp := range f.file.Imports {
		target, _ := strconv.Unquote(imp.Path.Value) // the parser has accepted it
		if inside, ours := strings.CutPrefix(target, module+"/"); ours && hidden(inside) {
			name := path.Base(target)
			if imp.Name != nil {
				name = imp.Name.Name
			}
			internal[name] = true
		}
	}
	var out []string
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, field := range n.Fields.List {
				for _, name := range field.Names {
					if !name.IsExported() {
						field.Type = &ast.Ident{Name: "hidden"} // nobody outside sees it
					}
				}
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] {
				out = append(out, f.set.Position(n.Pos()).String()+": exports "+x.Name+"."+n.Sel.Name)
			}
		}
		return true
	}
	for _, d := range f.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiverOf(d))) {
				ast.Inspect(d.Type, look)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						ast.Inspect(s.Type, look)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Type != nil {
						ast.Inspect(s.Type, look)
					}
				}
			}
		}
	}
	return out
}

// receiverOf is the name of the type that a method is of.
func receiverOf(d *ast.FuncDecl) string {
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

// TestPublic: what public packages export, other modules can name.
func TestPublic(t *testing.T) {
	set, seen := token.NewFileSet(), 0
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "cmd" || name == "examples" || name == "internal"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parse(set, filepath.ToSlash(filepath.Dir(p)), p, nil)
		if err != nil {
			return err
		}
		seen++
		for _, leak := range f.leaks() {
			t.Error(leak)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d files were looked at", seen)
	}
}

// TestPublicFinds shows that the check can fail.
func TestPublicFinds(t *testing.T) {
	const imports = `package p; import "github.com/norn-scheduler/norn/internal/grid"; import other "github.com/norn-scheduler/norn/a/internal/b"; import "github.com/norn-scheduler/norn/job"; `
	for text, leaks := range map[string]int{
		"func F(g *grid.Grid) []other.T":            2,
		"func f(g *grid.Grid)":                      0,
		"type T struct { G grid.Grid }":             1,
		"type T struct { g grid.Grid }":             0,
		"type t struct { G grid.Grid }":             0,
		"type T interface { F() grid.Grid }":        1,
		"type T = grid.Grid":                        1,
		"type T struct{}; func (t *T) F(o other.T)": 1,
		"type t struct{}; func (x *t) F(o other.T)": 0,
		"var V map[string]grid.Grid":                1,
		"func F(j job.ID)":                          0,
	} {
		f, err := parse(token.NewFileSet(), "p", "snippet.go", imports+text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := f.leaks(); len(got) != leaks {
			t.Errorf("%s: %q, want %d", text, got, leaks)
		}
	}
}
