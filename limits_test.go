package norn_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Limits on the size of code that is no test.
const (
	mostLines   = 75 // of a function
	mostMethods = 60 // of a type
	mostFolders = 24 // at the root
)

// longFunctions are the functions that are longer, by package and name, and how long
// they may be. The list may only shrink.
var longFunctions = map[string]int{}

// largeTypes are the types that have more methods, and how many they may have. The list
// may only shrink.
var largeTypes = map[string]int{
	"cluster Cluster":       127,
	"policy/gandiva policy": 102,
}

// sizes are the lines of each function and the methods of each type, by package and
// name, and the exported variables that are no errors.
func sizes(files []*goFile) (lines, methods map[string]int, variables []string) {
	lines, methods = map[string]int{}, map[string]int{}
	for _, f := range files {
		for _, d := range f.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					typ := receiverType(d.Recv.List[0].Type)
					methods[f.pkg+" "+typ]++
					name = typ + "." + name
				}
				lines[f.pkg+" "+name] = f.set.Position(d.End()).Line - f.set.Position(d.Pos()).Line + 1
			case *ast.GenDecl:
				variables = append(variables, f.exported(d)...)
			}
		}
	}
	return lines, methods, variables
}

// receiverType is the name of the type of a method.
func receiverType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// exported are the exported variables of a declaration, but for errors, which are named
// Err and are variables by custom.
func (f *goFile) exported(d *ast.GenDecl) []string {
	var out []string
	if d.Tok != token.VAR {
		return nil
	}
	for _, s := range d.Specs {
		for _, n := range s.(*ast.ValueSpec).Names {
			if n.IsExported() && !strings.HasPrefix(n.Name, "Err") {
				out = append(out, fmt.Sprintf("%s: %s", f.set.Position(n.Pos()), n.Name))
			}
		}
	}
	return out
}

// beyond lists what is above a limit and above its exception, and the exceptions that
// are none any more.
func beyond(what string, sizes map[string]int, most int, except map[string]int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if n := sizes[name]; n > max(most, except[name]) {
			out = append(out, fmt.Sprintf("%s has %d %s, at most %d are allowed", name, n, what, max(most, except[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(except)) {
		if sizes[name] <= most {
			out = append(out, fmt.Sprintf("%s has %d %s and needs no exception: take it off the list", name, sizes[name], what))
		}
	}
	return out
}

// TestLimits holds functions and types to their size, and exported variables, which any
// caller could change, out of the module.
func TestLimits(t *testing.T) {
	lines, methods, variables := sizes(sources(t))
	if len(lines) < 1000 || methods["sched Plan"] < 10 {
		t.Fatalf("only %d functions were found", len(lines))
	}
	for _, fault := range append(beyond("lines", lines, mostLines, longFunctions), beyond("methods", methods, mostMethods, largeTypes)...) {
		t.Error(fault)
	}
	for _, v := range variables {
		t.Errorf("%s is a variable that a caller could change: make it a function or a constant", v)
	}
}

// TestLimitsFind shows that the check can fail.
func TestLimitsFind(t *testing.T) {
	body := strings.Repeat("\n", mostLines-1)
	text := "package x\nvar A, b = 1, 2\nvar ErrNo error\nfunc Fits() {" + body + "}\nfunc (t *T[K]) Long() {" + body + "\n}\n" +
		strings.Repeat("func (T[K]) _() {}\n", mostMethods)
	f, err := parse(token.NewFileSet(), "x", "x.go", text)
	if err != nil {
		t.Fatal(err)
	}
	lines, methods, variables := sizes([]*goFile{f})
	if want := []string{"x.go:2:5: A"}; !slices.Equal(variables, want) {
		t.Errorf("variables %q, want %q", variables, want)
	}
	got := append(beyond("lines", lines, mostLines, nil), beyond("methods", methods, mostMethods, map[string]int{"x T": 61, "x S": 70})...)
	want := []string{"x T.Long has 76 lines, at most 75 are allowed", "x S has 0 methods and needs no exception: take it off the list"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := beyond("methods", methods, mostMethods, nil); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// TestFolders: who opens the repository sees what it consists of at one glance.
func TestFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains([]string{"bin", "out"}, e.Name()) { // what .gitignore names
			folders = append(folders, e.Name())
		}
	}
	if len(folders) > mostFolders {
		t.Errorf("%d folders at the root, %d at most: %v", len(folders), mostFolders, folders)
	}
}
