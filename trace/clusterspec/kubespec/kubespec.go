// Package kubespec makes a description of a cluster of what kubectl get writes about it,
// in JSON or YAML: nodes, and the queues of Kueue, Norn, Volcano and KAI.
//
// Nouns:
//   - An Import is what was read so far; its Spec is the description.
//   - A node is an object of kind Node, read by the rules of package trace/podmap, as a
//     live Norn does (package kube/convert).
//   - A queue becomes a tenant: a ClusterQueue or Cohort of Kueue, or a Queue.
//   - A remark is about something of them that a description has no word for, or that it
//     tells in another way. It is counted.
//
// Units: as in package clusterspec. Sources: the API of Kubernetes (core/v1), of Kueue
// (kueue.x-k8s.io/v1beta1 and v1beta2), of Volcano (scheduling.volcano.sh/v1beta1) and of
// KAI (scheduling.run.ai/v2).
//
// docs/clusters.md tells what becomes of each field.
package kubespec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/internal/kubelist"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// Is tells whether a file that begins like this is something that kubectl get has written.
func Is(head []byte) bool {
	_, ok := kubelist.Head(head)
	return ok
}

// Import is what was read of a cluster. The zero Import has read nothing.
type Import struct {
	nodes   []node
	flavors map[string]bool // labels of nodes by which flavors choose them
	levels  [][]string      // of Kueue's Topologies: labels of nodes, the widest first
	queues  []queue
	cohorts map[string]*queue // that an object describes, or that a ClusterQueue names
	objects map[string]bool   // kind, group and name of those that were read
	remarks remarks
}

// Remark is about something that could not be taken over as it is.
type Remark struct {
	What  string
	Count int
	Names []string // of the first few objects that had it
}

// String says it in a line.
func (r *Remark) String() string {
	text := fmt.Sprintf("%s: %d", r.What, r.Count)
	if len(r.Names) == 0 {
		return text
	}
	text += " (" + strings.Join(r.Names, ", ")
	if r.Count > len(r.Names) {
		text += ", ..."
	}
	return text + ")"
}

// remarks are counted by what they are about.
type remarks struct{ all []Remark }

// namesShown is how many names of objects a remark tells.
const namesShown = 3

func (r *remarks) add(what, name string) {
	i := slices.IndexFunc(r.all, func(o Remark) bool { return o.What == what })
	if i < 0 {
		i = len(r.all)
		r.all = append(r.all, Remark{What: what})
	}
	one := &r.all[i]
	one.Count++
	if name != "" && len(one.Names) < namesShown && !slices.Contains(one.Names, name) {
		one.Names = append(one.Names, name)
	}
}

// meta is what is used of the metadata of any object.
type meta struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	Deleted   *string           `json:"deletionTimestamp"`
}

// The API groups whose queues are read.
const (
	kueueGroup   = "kueue.x-k8s.io"
	nornGroup    = "norn-scheduler.github.io" // names.Group of package kube/names
	volcanoGroup = "scheduling.volcano.sh"
	kaiGroup     = "scheduling.run.ai"
)

// Read reads a file: lists and single objects of any kinds, in JSON or YAML. It may be
// called for several files, in any order. An object that comes twice counts once. It fails
// on what kubectl does not write, and on a node or queue that makes no sense; the error
// names the file and the object.
func (im *Import) Read(name string, in io.Reader) error {
	read := 0
	err := kubelist.Each(in, func(o kubelist.Object) error {
		read++
		if err := im.object(&o); err != nil {
			return fmt.Errorf("item %d: %w", read, err)
		}
		return nil
	})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: it breaks off in the middle of an object: %w", name, err)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// object reads an object of any kind.
func (im *Import) object(o *kubelist.Object) error {
	known := map[[2]string]func(raw []byte) error{
		{"", "Node"}:                   im.node,
		{kueueGroup, "ClusterQueue"}:   im.clusterQueue,
		{kueueGroup, "Cohort"}:         im.cohort,
		{kueueGroup, "LocalQueue"}:     im.localQueue,
		{kueueGroup, "ResourceFlavor"}: im.flavor,
		{kueueGroup, "Topology"}:       im.topology,
		{nornGroup, "Queue"}:           im.nornQueue,
		{volcanoGroup, "Queue"}:        im.volcanoQueue,
		{kaiGroup, "Queue"}:            im.kaiQueue,
	}
	read := known[[2]string{o.Group(), o.Kind}]
	var m struct {
		Metadata meta `json:"metadata"`
	}
	if err := json.Unmarshal(o.JSON, &m); err != nil {
		return fmt.Errorf("%s: %w", kind(o), err)
	}
	if read == nil {
		im.remarks.add("objects of kind "+kind(o)+", which are not read", m.Metadata.Name)
		return nil
	}
	if m.Metadata.Name == "" {
		return fmt.Errorf("a %s without a name", o.Kind)
	}
	key := strings.Join([]string{o.Kind, o.Group(), m.Metadata.Namespace, m.Metadata.Name}, "/")
	if im.objects[key] {
		im.remarks.add("objects that come again, of which the first counts", m.Metadata.Name)
		return nil
	}
	if im.objects == nil {
		im.objects = map[string]bool{}
	}
	im.objects[key] = true
	if err := read(o.JSON); err != nil {
		return fmt.Errorf("%s %s: %w", o.Kind, m.Metadata.Name, err)
	}
	return nil
}

// kind is what to call the kind of an object.
func kind(o *kubelist.Object) string {
	switch {
	case o.Kind == "":
		return "(not told)"
	case o.Group() == "":
		return o.Kind
	}
	return o.Kind + " of " + o.Group()
}

// Spec is the description of what was read. It fails where no node was read, and on a
// cluster that no description may be.
func (im *Import) Spec() (*clusterspec.Spec, []Remark, error) {
	if len(im.nodes) == 0 {
		return nil, nil, errors.New("no node was read: export them by kubectl get nodes -o json")
	}
	s := &clusterspec.Spec{}
	told := remarks{all: slices.Clone(im.remarks.all)}
	for i := range told.all {
		told.all[i].Names = slices.Clone(told.all[i].Names)
	}
	if err := im.describe(s, &told); err != nil {
		return nil, told.all, err
	}
	im.tenants(s, &told)
	if err := s.Complete(); err != nil {
		return nil, told.all, err
	}
	return s, told.all, nil
}
