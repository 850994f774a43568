package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	goformat "go/format"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/policy"
)

//go:embed newpolicy
var newPolicy embed.FS

// nornModule is the path of Norn's module.
const nornModule = "github.com/norn-scheduler/norn"

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Begin a scheduling policy of your own",
		Long: `Policy is for authors of policies. norn policies lists those that there are, and
norn docs external-policies says in which ways a policy of your own can be used.`,
		Example: "  norn policy new mine",
	}
	cmd.AddCommand(policyNewCommand())
	return cmd
}

// newPolicyFlags is what norn policy new was asked, and what the templates are filled with.
type newPolicyFlags struct {
	Name    string
	Package string
	Module  string
	Clone   string // folder of Norn's module; empty: a version is fetched

	folder string
}

func policyNewCommand() *cobra.Command {
	f := new(newPolicyFlags)
	cmd := &cobra.Command{
		Use:   "new NAME [DIR]",
		Short: "Write a Go module with a policy of your own, its tests and a program that compares it",
		Long: `New writes a Go module into the folder DIR, which is NAME unless it is given: a small
policy to begin with, the property tests that all policies of Norn pass, and a program
that simulates it beside others. It builds and passes its tests as it is.

The module uses Norn as a library: the clone in which you are or that --norn names, or the
version of this program. A policy in another language needs no module: see norn docs
external-policies.`,
		Example: `  norn policy new mine
  norn policy new mine work/mine --module example.org/mine --norn ~/norn`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVar(&f.Module, "module", "", "path of the module (default: example.org/NAME)")
	cmd.Flags().StringVar(&f.Clone, "norn", "", "folder with a clone of Norn to build with (default: the one around the present folder, or else the version of this program)")
	return cmd
}

func (f *newPolicyFlags) run(cmd *cobra.Command, args []string) error {
	f.Name, f.folder = args[0], args[0]
	if len(args) > 1 {
		f.folder = args[1]
	}
	if err := f.check(); err != nil {
		return err
	}
	mod, err := f.goMod()
	if err != nil {
		return err
	}
	files := map[string][]byte{"go.mod": mod}
	if f.Clone != "" {
		if files["go.sum"], err = os.ReadFile(filepath.Join(f.Clone, "go.sum")); err != nil {
			return err
		}
	}
	for name, from := range map[string]string{
		f.Package + ".go": "policy.go.txt", f.Package + "_test.go": "policy_test.go.txt", "compare/main.go": "main.go.txt", "README.md": "README.md.txt",
	} {
		if files[name], err = f.filled(from); err != nil {
			return err
		}
	}
	if err := writeModule(f.folder, files); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "wrote the policy %s into %s. Go on with:\n\n  cd %s\n", f.Name, f.folder, shellWord(f.folder))
	if f.Clone == "" {
		fmt.Fprintln(out, "  go mod tidy")
	}
	_, err = fmt.Fprint(out, "  go test ./...\n  go run ./compare\n")
	return err
}

// check checks the names, and finds the clone.
func (f *newPolicyFlags) check() error {
	f.Package = strings.NewReplacer("-", "", "_", "").Replace(f.Name)
	switch _, err := policy.ByName(f.Name); {
	case err == nil || f.Name == foreign.Name:
		return misused("there is a policy %s already: take another name", f.Name)
	case !regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`).MatchString(f.Name):
		return misused("%s: the name of a policy has small letters and digits, - and _ between them", f.Name)
	case token.IsKeyword(f.Package) || f.Package == "main" || f.Package == "compare":
		return misused("%s cannot be the name of a Go package: take another name", f.Name)
	}
	if f.Module == "" {
		f.Module = "example.org/" + f.Name
	}
	if !regexp.MustCompile(`^[a-z0-9._~-]+(/[A-Za-z0-9._~-]+)*$`).MatchString(f.Module) {
		return misused("--module %s: write a path such as example.org/%s", f.Module, f.Name)
	}
	if f.Clone == "" {
		f.Clone = cloneAround()
		return nil
	}
	folder, err := filepath.Abs(f.Clone)
	if f.Clone = folder; err == nil && !isClone(folder) {
		err = misused("--norn %s: there is no clone of Norn in it", f.Clone)
	}
	return err
}

// cloneAround is the clone of Norn that the present folder is in, or empty.
func cloneAround() string {
	folder, err := os.Getwd()
	for err == nil && !isClone(folder) {
		up := filepath.Dir(folder)
		if up == folder {
			return ""
		}
		folder = up
	}
	if err != nil {
		return ""
	}
	return folder
}

// isClone tells whether a folder has Norn's module.
func isClone(folder string) bool {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	return err == nil && bytes.HasPrefix(text, []byte("module "+nornModule+"\n"))
}

// goMod is the go.mod of the module. One that builds with a clone has all that the clone
// requires, so nothing need be looked up.
func (f *newPolicyFlags) goMod() ([]byte, error) {
	if f.Clone == "" {
		v := built().Version
		if v == "" || strings.Contains(v, "+") {
			return nil, misused("this norn was built from a clone with changes, or without a version: name a clone with --norn DIR")
		}
		return fmt.Appendf(nil, "module %s\n\ngo 1.26.0\n\nrequire %s %s\n", f.Module, nornModule, v), nil
	}
	text, err := os.ReadFile(filepath.Join(f.Clone, "go.mod"))
	if err != nil {
		return nil, err
	}
	rest := bytes.TrimPrefix(text, []byte("module "+nornModule+"\n"))
	return fmt.Appendf(nil, "module %s\n%s\nrequire %s v0.0.0\n\nreplace %[3]s => %[4]s\n", f.Module, rest, nornModule, quoted(filepath.ToSlash(f.Clone))), nil
}

// Import is the line by which the program imports the policy.
func (f *newPolicyFlags) Import() string {
	if path.Base(f.Module) == f.Package {
		return fmt.Sprintf("%q", f.Module)
	}
	return fmt.Sprintf("%s %q", f.Package, f.Module)
}

// quoted is a path as go.mod has it.
func quoted(folder string) string {
	if strings.ContainsAny(folder, " \t\"'`(),") {
		return fmt.Sprintf("%q", folder)
	}
	return folder
}

// filled is a template with the names filled in. Go code is in the form that gofmt has.
func (f *newPolicyFlags) filled(name string) ([]byte, error) {
	t, err := template.ParseFS(newPolicy, "newpolicy/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, f); err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".go.txt") {
		return goformat.Source(out.Bytes())
	}
	return out.Bytes(), nil
}

// writeModule writes files into a folder that is empty or not there.
func writeModule(folder string, files map[string][]byte) error {
	entries, err := os.ReadDir(folder)
	switch {
	case len(entries) > 0:
		return fmt.Errorf("%s has files in it: name an empty folder, or one that is not there", folder)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for name, text := range files {
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o666); err != nil {
			return err
		}
	}
	return nil
}
