package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image writes the static Linux builds as one OCI image, an index of platforms, into a tar
// file. It does nothing where there is no static build.
func (r *release) image(built []build) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	found := false
	for _, b := range built {
		if !b.target.static {
			continue
		}
		say("image for %s/%s", b.target.os, b.target.arch)
		img, err := r.platform(b)
		if err != nil {
			return err
		}
		platform := &v1.Platform{OS: b.target.os, Architecture: b.target.arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
		found = true
	}
	if !found {
		return nil
	}
	dir := filepath.Join(r.work, "image")
	top, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := map[string]string{"org.opencontainers.image.ref.name": r.plain()}
	if err := top.AppendIndex(index, layout.WithAnnotations(tag)); err != nil {
		return err
	}
	files, err := filesOf(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(r.out, "norn-kube_"+r.plain()+"_oci.tar")
	return create(path, func(w io.Writer) error { return writeTar(w, "", files, r.time) })
}

// platform is the image of one platform: the programs, an account without rights, and a
// folder in which Norn keeps its log.
func (r *release) platform(b build) (v1.Image, error) {
	var files []file
	for _, f := range b.files() {
		f.path = "usr/local/bin/" + f.path
		files = append(files, f)
	}
	notice, err := r.notices.of(b.info)
	if err != nil {
		return nil, err
	}
	files = append(files,
		file{path: "etc/passwd", data: []byte("root:x:0:0:root:/root:/sbin/nologin\nnorn:x:65532:65532:norn:/var/lib/norn:/sbin/nologin\n")},
		file{path: "etc/group", data: []byte("root:x:0:\nnorn:x:65532:\n")},
		file{path: "usr/share/doc/norn/copyright", from: filepath.Join(r.repo, "LICENSE")},
		file{path: "usr/share/doc/norn/THIRD_PARTY_LICENSES", data: notice},
	)
	var layer bytes.Buffer
	if err := writeTar(&layer, "", files, r.time); err != nil {
		return nil, err
	}
	blob, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, blob)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, r.config(img, b))
}

// config is the configuration of an image, beside what its layers are.
func (r *release) config(img v1.Image, b build) *v1.ConfigFile {
	c := &v1.ConfigFile{OS: b.target.os, Architecture: b.target.arch, Created: v1.Time{Time: r.time}, Config: v1.Config{
		User: "65532:65532", Entrypoint: []string{"/usr/local/bin/norn-kube"},
		Env: []string{"PATH=/usr/local/bin", "NORN_SERVER=/var/lib/norn/norn.sock"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "norn-kube",
			"org.opencontainers.image.version":  r.plain(),
			"org.opencontainers.image.source":   homepage,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.revision": b.setting("vcs.revision"),
		}}}
	if had, err := img.ConfigFile(); err == nil {
		c.RootFS, c.History = had.RootFS, []v1.History{{Created: v1.Time{Time: r.time}, CreatedBy: "internal/release"}}
	}
	return c
}

// filesOf are all files below a folder.
func filesOf(dir string) ([]file, error) {
	var list []file
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !e.IsDir() {
			list = append(list, file{path: path, from: filepath.Join(dir, filepath.FromSlash(path))})
		}
		return nil
	})
	return list, err
}
