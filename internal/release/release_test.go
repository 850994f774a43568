package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/sassoftware/go-rpmutils"
)

// TestRelease makes a release of the last commit, looks into all that it consists of, and
// makes it once more in another folder with an empty build cache: the bytes are the same.
func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the programs of this release are run: that takes Linux on amd64")
	}
	const targets = "linux/amd64,linux/amd64/static"
	first := makeRelease(t, t.TempDir(), targets)
	names := listed(t, first)
	t.Run("checksums", func(t *testing.T) {
		command(t, first, "sha256sum", "--check", "--strict", "SHA256SUMS")
		sums, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(sums), "\n"); lines != len(names)-1 {
			t.Errorf("SHA256SUMS has %d lines for %d files", lines, len(names)-1)
		}
	})
	t.Run("archives", func(t *testing.T) {
		for _, name := range names {
			if strings.HasSuffix(name, ".tar.gz") {
				checkArchive(t, filepath.Join(first, name))
			}
		}
	})
	t.Run("deb", func(t *testing.T) { checkDeb(t, filepath.Join(first, only(t, names, ".deb"))) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, filepath.Join(first, only(t, names, ".rpm"))) })
	t.Run("image", func(t *testing.T) { checkImage(t, filepath.Join(first, only(t, names, "_oci.tar"))) })
	t.Run("materials", func(t *testing.T) {
		for _, name := range names {
			if strings.HasSuffix(name, ".cdx.json") {
				checkBOM(t, filepath.Join(first, name))
			}
		}
	})
	t.Run("reproducible", func(t *testing.T) {
		t.Setenv("GOCACHE", t.TempDir())
		second := makeRelease(t, filepath.Join(t.TempDir(), "elsewhere, with a longer path"), targets)
		a, b := sums(t, first), sums(t, second)
		if a != b {
			t.Errorf("two builds of one commit differ:\n%s\n%s", a, b)
		}
	})
}

// head is the last commit as the test began: there may be others since.
var head = sync.OnceValue(func() string {
	out, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "no commit: " + err.Error()
	}
	return strings.TrimSpace(string(out))
})

// makeRelease makes a release from a fresh clone of that commit in the folder dir.
func makeRelease(t *testing.T, dir, targets string) string {
	t.Helper()
	clone, out := filepath.Join(dir, "clone"), filepath.Join(dir, "dist")
	command(t, ".", "git", "clone", "--quiet", "--no-hardlinks", "../..", clone)
	command(t, clone, "git", "checkout", "--quiet", "--detach", head())
	if err := run(t.Context(), clone, out, targets); err != nil {
		t.Fatal(err)
	}
	return out
}

// checkArchive looks for what each archive has, and runs the programs.
func checkArchive(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	got := unpack(t, z, dir)
	top := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	for _, want := range []string{"norn", "norn-kube", "LICENSE", "README.md", "CHANGELOG.md", "THIRD_PARTY_LICENSES",
		"man/norn-sim.1", "completions/norn.bash", "completions/norn.zsh", "completions/norn.fish"} {
		if !slices.Contains(got, top+"/"+want) {
			t.Errorf("%s lacks %s", filepath.Base(path), want)
		}
	}
	checkProgram(t, filepath.Join(dir, top, "norn"), strings.HasSuffix(top, "_static"))
	checkProgram(t, filepath.Join(dir, top, "norn-kube"), strings.HasSuffix(top, "_static"))
	text := command(t, dir, "cat", filepath.Join(top, "THIRD_PARTY_LICENSES"))
	for _, want := range []string{"The Go standard library", "github.com/spf13/cobra v", "k8s.io/client-go v", "Permission is hereby granted"} {
		if !strings.Contains(text, want) {
			t.Errorf("the licences have nothing of %q", want)
		}
	}
}

// checkProgram tells whether a program is static as it should be, and whether it knows its commit.
func checkProgram(t *testing.T, path string, static bool) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if static && dynamic {
		t.Errorf("%s is not static", path)
	}
	if filepath.Base(path) != "norn" {
		return
	}
	if !static && !dynamic {
		t.Errorf("%s is static, and so cannot see GPUs", path)
	}
	var v struct {
		Version, Commit string
		Modified        bool
	}
	if err := json.Unmarshal([]byte(command(t, ".", path, "version", "--json")), &v); err != nil {
		t.Fatal(err)
	}
	head := head()
	if v.Commit != head || v.Modified || v.Version == "" {
		t.Errorf("%s says %+v: it is of commit %s, unmodified", path, v, head)
	}
}

// checkDeb has dpkg unpack the package, and runs what is in it.
func checkDeb(t *testing.T, path string) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	fields := command(t, ".", "dpkg-deb", "--field", path)
	for _, want := range []string{"Package: norn\n", "Architecture: amd64\n", "Depends: libc6\n", "Version: "} {
		if !strings.Contains(fields, want) {
			t.Errorf("the package does not say %q:\n%s", want, fields)
		}
	}
	dir := t.TempDir()
	command(t, ".", "dpkg-deb", "--extract", path, dir)
	checkProgram(t, filepath.Join(dir, "usr/bin/norn"), false)
	for _, want := range []string{"usr/bin/norn-kube", "usr/share/man/man1/norn-sim.1", "usr/share/doc/norn/copyright"} {
		if _, err := os.Stat(filepath.Join(dir, want)); err != nil {
			t.Error(err)
		}
	}
}

// checkRPM reads the package with another library than wrote it.
func checkRPM(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	id, err := p.Header.GetNEVRA()
	if err != nil || id.Name != "norn" || id.Arch != "x86_64" {
		t.Errorf("the package is %v (%v)", id, err)
	}
	files, err := p.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	modes := make(map[string]int)
	for _, f := range files {
		modes[f.Name()] = f.Mode() & 0o777
	}
	if modes["/usr/bin/norn"] != 0o755 || modes["/usr/bin/norn-kube"] != 0o755 || modes["/usr/share/man/man1/norn-sim.1"] != 0o644 {
		t.Errorf("modes %o, %o and %o", modes["/usr/bin/norn"], modes["/usr/bin/norn-kube"], modes["/usr/share/man/man1/norn-sim.1"])
	}
	dir := t.TempDir()
	if err := p.ExpandPayload(dir); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "usr/bin/norn")
	if err := os.Chmod(program, 0o755); err != nil { // the library that unpacks leaves that out
		t.Fatal(err)
	}
	checkProgram(t, program, false)
}

// checkImage validates the image by its own digests, and runs the programs of its layer.
func checkImage(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	unpack(t, f, dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Fatal(err)
	}
	tops, err := top.IndexManifest()
	if err != nil || len(tops.Manifests) != 1 {
		t.Fatalf("index %+v, %v", tops, err)
	}
	index, err := top.ImageIndex(tops.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil || len(platforms.Manifests) != 1 {
		t.Fatalf("platforms %+v, %v", platforms, err)
	}
	img, err := index.Image(platforms.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/usr/local/bin/norn-kube" {
		t.Errorf("configuration %+v, %v", config, err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	root := t.TempDir()
	unpack(t, r, root)
	checkProgram(t, filepath.Join(root, "usr/local/bin/norn"), true)
	checkProgram(t, filepath.Join(root, "usr/local/bin/norn-kube"), true)
}

// checkBOM looks for modules of both programs, and for their licences.
func checkBOM(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	modules, known := make(map[string]bool), 0
	for _, c := range *bom.Components {
		if c.Type != cdx.ComponentTypeLibrary {
			continue
		}
		modules[c.Name] = true
		if c.Licenses != nil {
			known++
		} else {
			t.Logf("%s: no licence is recognised in %s %s", filepath.Base(path), c.Name, c.Version)
		}
	}
	for _, want := range []string{"std", "github.com/spf13/cobra", "k8s.io/client-go"} {
		if !modules[want] {
			t.Errorf("%s lacks %s", filepath.Base(path), want)
		}
	}
	if known*10 < len(modules)*9 {
		t.Errorf("%s: licences of %d among %d modules are recognised", filepath.Base(path), known, len(modules))
	}
}

// TestTargets reads targets, and names one that is unknown.
func TestTargets(t *testing.T) {
	all, err := parseTargets("all")
	if err != nil || len(all) != 6 {
		t.Fatalf("%v, %v", all, err)
	}
	two, err := parseTargets("darwin/arm64,linux/amd64/static")
	if err != nil || len(two) != 2 || two[0] != (target{"darwin", "arm64", false}) || two[1] != (target{"linux", "amd64", true}) {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := parseTargets("plan9/mips"); err == nil || !strings.Contains(err.Error(), `"plan9/mips"`) {
		t.Errorf("error %v does not name the target", err)
	}
}

// unpack writes the files of a tar into a folder, and returns their names.
func unpack(t *testing.T, r io.Reader, dir string) []string {
	t.Helper()
	var names []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, os.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// only is the one name with a suffix.
func only(t *testing.T, names []string, suffix string) string {
	t.Helper()
	var with []string
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			with = append(with, n)
		}
	}
	if len(with) != 1 {
		t.Fatalf("%v end in %s, want one", with, suffix)
	}
	return with[0]
}

func sums(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// command runs a program in a folder and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}
