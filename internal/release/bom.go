package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes the bill of materials of a build: the modules in its programs, with
// versions, checksums of Go and licences, and the programs with theirs.
func (r *release) writeBOM(path string, b build) error {
	main := module(&b.info.Main, cdx.ComponentTypeApplication)
	main.Licenses = licences([]string{"Apache-2.0"})
	components := []cdx.Component{{
		BOMRef: purl("std", b.info.GoVersion), Type: cdx.ComponentTypeLibrary, Name: "std", Version: b.info.GoVersion,
		PackageURL: purl("std", b.info.GoVersion), Licenses: licences([]string{"BSD-3-Clause"}),
	}}
	needs := []string{components[0].BOMRef}
	for _, m := range b.info.Deps {
		c := module(m, cdx.ComponentTypeLibrary)
		l, err := r.notices.licence(r.notices.dir(m))
		if err != nil {
			return err
		}
		c.Licenses = licences(l.ids)
		components, needs = append(components, c), append(needs, c.BOMRef)
	}
	for _, p := range programs {
		sum, err := sumOf(filepath.Join(b.dir, p))
		if err != nil {
			return err
		}
		components = append(components, cdx.Component{
			BOMRef: "file:" + p, Type: cdx.ComponentTypeFile, Name: p, Version: r.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		})
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main,
		Properties: &[]cdx.Property{{Name: "norn:target", Value: b.target.String()}}}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// module is a Go module as a component.
func module(m *debug.Module, kind cdx.ComponentType) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	c := cdx.Component{BOMRef: purl(m.Path, m.Version), Type: kind, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version)}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}

// purl is the package URL of a Go module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

// licences are SPDX identifiers as a component has them; nil where there are none.
func licences(ids []string) *cdx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	list := make(cdx.Licenses, 0, len(ids))
	for _, id := range ids {
		list = append(list, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &list
}
