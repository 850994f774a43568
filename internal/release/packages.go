package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	packed "github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// homepage stands in packages and images.
const homepage = "https://github.com/norn-scheduler/norn"

// writePackages writes the build as .deb and .rpm.
func (r *release) writePackages(b build, files []file) error {
	contents, err := r.contents(b, files)
	if err != nil {
		return err
	}
	for _, p := range []nfpm.PackagerWithExtension{deb.Default, rpm.DefaultRPM} {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "norn", Arch: b.target.arch, Platform: "linux", Version: r.version, Section: "admin", Priority: "optional",
			Maintainer: "The Norn authors <norn@norn-scheduler.github.io>", Homepage: homepage, License: "Apache-2.0",
			Description: "Scheduler for deep-learning clusters\n" +
				"Norn decides which deep-learning jobs run on which GPUs: in simulation over\ntraces, on one machine, and on Kubernetes.",
			MTime: r.time, DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Contents: contents,
				Depends:  map[string][]string{".deb": {"libc6"}, ".rpm": {"glibc"}}[p.ConventionalExtension()],
				RPM:      nfpm.RPM{BuildHost: "norn-release", Summary: "Scheduler for deep-learning clusters", Group: "System Environment/Daemons"},
				Deb:      nfpm.Deb{Compression: "gzip"},
			},
		})
		path := filepath.Join(r.out, r.name("norn", b.target)+p.ConventionalExtension())
		if err := create(path, func(w io.Writer) error { return p.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}

// contents are the files of a package at the places where a distribution has them.
// Contents in memory are written down first, since packages are made of files.
func (r *release) contents(b build, files []file) (packed.Contents, error) {
	var list packed.Contents
	for _, f := range files {
		from := f.from
		if from == "" {
			from = filepath.Join(b.dir, filepath.Base(f.path))
			if err := os.WriteFile(from, f.data, 0o644); err != nil {
				return nil, err
			}
		}
		list = append(list, &packed.Content{Source: from, Destination: installed(f.path),
			FileInfo: &packed.ContentFileInfo{Owner: "root", Group: "root", Mode: f.perm(), MTime: r.time}})
	}
	return list, nil
}

// installed is where a file of the archive is on a machine with the package.
func installed(path string) string {
	dir, name := filepath.Split(path)
	switch {
	case dir == "man/":
		return "/usr/share/man/man1/" + name
	case name == "norn.bash":
		return "/usr/share/bash-completion/completions/norn"
	case name == "norn.zsh":
		return "/usr/share/zsh/vendor-completions/_norn"
	case name == "norn.fish":
		return "/usr/share/fish/vendor_completions.d/norn.fish"
	case strings.HasPrefix(name, "norn"):
		return "/usr/bin/" + name
	case name == "LICENSE":
		return "/usr/share/doc/norn/copyright"
	default:
		return "/usr/share/doc/norn/" + name
	}
}
