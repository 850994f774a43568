// Release builds what a release of Norn consists of, from a clone, into one folder:
//
//   - for each target an archive with norn, norn-kube, the pages of the manual, completions
//     for shells, and the licences of all modules in the programs;
//   - for Linux packages for Debian (.deb) and for distributions with RPM (.rpm);
//   - an OCI image of norn-kube for amd64 and arm64, as one tar file, without a container engine;
//   - a bill of materials (CycloneDX 1.6) for each archive, and SHA256SUMS of everything.
//
// All of it is a function of the commit and the Go version: times are those of the commit,
// owners are root, paths of the machine appear nowhere. Two builds give the same bytes.
//
// A target is an operating system and an architecture, and for Linux whether the programs
// are static. Static programs run on any C library, and see no GPUs: NVML is a dynamic
// library. Release is a module of its own, so that none of its libraries is one of Norn's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	repo := flag.String("repo", "../..", "the clone that is built")
	out := flag.String("out", "", "the folder in which the release is put; it must be empty or missing (default REPO/dist)")
	only := flag.String("targets", "all", "which targets, by comma: linux/amd64, linux/amd64/static, darwin/arm64 ...")
	flag.Parse()
	if err := run(ctx, *repo, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, repo, out, only string) error {
	targets, err := parseTargets(only)
	if err != nil {
		return err
	}
	if repo, err = filepath.Abs(repo); err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(repo, "dist")
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if left, err := os.ReadDir(out); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is not empty: remove what is there, or name another folder with -out", out)
	}
	work, err := os.MkdirTemp("", "norn-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{repo: repo, out: out, work: work}
	return r.make(ctx, targets)
}

// A release is the release that is being made.
type release struct {
	repo, out, work string
	version         string    // of the module, as Go stamps it: "v1.2.0", or "v0.0.0-20261123120000-476d251abcde"
	time            time.Time // of the commit
	notices         *notices
	shared          []file // what every archive has: manual, completions, README, licence
}

func (r *release) make(ctx context.Context, targets []target) error {
	var err error
	if r.notices, err = newNotices(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var built []build
	for _, t := range targets {
		say("%s", t)
		b, err := r.compile(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if r.version == "" {
			if err := r.stamp(ctx, b); err != nil {
				return err
			}
		}
		if err := r.pack(b); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		built = append(built, b)
	}
	if err := r.image(built); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return writeSums(r.out)
}

// stamp takes version and time from the first build, and makes what all archives share.
func (r *release) stamp(ctx context.Context, b build) error {
	r.version, r.time = b.info.Main.Version, b.time
	if strings.Contains(r.version, "dirty") {
		say("the clone has changes that are in no commit: this is %s", r.version)
	}
	var err error
	r.shared, err = r.sharedFiles(ctx, b)
	return err
}

// pack makes archive, bill of materials and packages of a build.
func (r *release) pack(b build) error {
	name := r.name("norn", b.target)
	notice, err := r.notices.of(b.info)
	if err != nil {
		return err
	}
	files := append(b.files(), r.shared...)
	files = append(files, file{path: "THIRD_PARTY_LICENSES", data: notice})
	if err := writeArchive(filepath.Join(r.out, name+".tar.gz"), name, files, r.time); err != nil {
		return err
	}
	if err := r.writeBOM(filepath.Join(r.out, name+".cdx.json"), b); err != nil {
		return err
	}
	if b.target.os == "linux" && !b.target.static {
		return r.writePackages(b, files)
	}
	return nil
}

// name is the name of an artefact for a target, without its suffix: norn_1.2.0_linux_amd64.
func (r *release) name(program string, t target) string {
	return strings.Join([]string{program, r.plain(), strings.ReplaceAll(t.String(), "/", "_")}, "_")
}

// plain is the version without the v, and without a + that URLs and tags refuse.
func (r *release) plain() string {
	return strings.ReplaceAll(strings.TrimPrefix(r.version, "v"), "+", "-")
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...) }
