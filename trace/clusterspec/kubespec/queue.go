package kubespec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/kubelist"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// queue is an object that becomes a tenant.
type queue struct {
	name, parent string
	kind         string // of which names are told apart: cohort, Volcano ...
	guarantee    unit.Milli
	limit        unit.Milli // where it is limited
	limited      bool
	weight       float64 // 0: not told
	borrow       unit.Milli
	borrows      bool // no further than borrow beyond what it and those below it are guaranteed
	pool         bool // a cohort: it is guaranteed what those below it are, and its own beside
}

// quotas are those of a ClusterQueue or Cohort.
type quotas struct {
	ResourceGroups []struct {
		Flavors []struct {
			Name      string `json:"name"`
			Resources []struct {
				Name           string             `json:"name"`
				NominalQuota   kubelist.Quantity  `json:"nominalQuota"`
				BorrowingLimit *kubelist.Quantity `json:"borrowingLimit"`
				LendingLimit   *kubelist.Quantity `json:"lendingLimit"`
			} `json:"resources"`
		} `json:"flavors"`
	} `json:"resourceGroups"`
	FairSharing *struct {
		Weight *kubelist.Quantity `json:"weight"`
	} `json:"fairSharing"`
}

// gpuQuota is what quotas say of GPUs, all flavors and resources together.
type gpuQuota struct {
	nominal, borrow unit.Milli
	told            bool // some quota is of GPUs
	unlimited       bool // some of them has no limit on borrowing
}

// gpus adds up the quotas of GPUs. Slices are parts of GPUs.
func (q *quotas) gpus(name string, told *remarks) (sum gpuQuota, err error) {
	flavors := map[string]bool{}
	others := map[string]bool{}
	for _, group := range q.ResourceGroups {
		for _, f := range group.Flavors {
			for _, r := range f.Resources {
				if !podmap.IsGPU(r.Name) && !podmap.IsSlice(r.Name) {
					others[r.Name] = true
					continue
				}
				nominal, err := gpusOf(r.Name, r.NominalQuota)
				if err != nil {
					return sum, fmt.Errorf("nominalQuota of flavor %s: %w", f.Name, err)
				}
				flavors[f.Name] = flavors[f.Name] || nominal > 0
				sum.nominal, sum.told = sum.nominal+nominal, true
				if r.BorrowingLimit == nil {
					sum.unlimited = true
				} else {
					borrow, err := gpusOf(r.Name, *r.BorrowingLimit)
					if err != nil {
						return sum, fmt.Errorf("borrowingLimit of flavor %s: %w", f.Name, err)
					}
					sum.borrow += borrow
				}
				if r.LendingLimit != nil {
					told.add("limits on lending (lendingLimit)", name)
				}
			}
		}
	}
	if len(flavors) > 1 {
		told.add("quotas by flavor, which are added up", name)
	}
	for _, r := range slices.Sorted(maps.Keys(others)) {
		told.add("quotas of "+r, name)
	}
	return sum, nil
}

// gpusOf is an amount of a resource in GPUs.
func gpusOf(resource string, amount kubelist.Quantity) (unit.Milli, error) {
	if amount == "" {
		return 0, nil
	}
	v, err := podmap.Quantity(string(amount))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", resource, err)
	}
	if v > clusterspec.MaxDevices {
		v = clusterspec.MaxDevices // quotas such as 1000000000 stand for no bound
	}
	if podmap.IsSlice(resource) {
		v *= float64(sevenths(resource)) / 7
	}
	return podmap.Milli(v), nil
}

// weight is the share of what is not guaranteed; 0: not told.
func weight(text *kubelist.Quantity, name string, told *remarks) (float64, error) {
	if text == nil {
		return 0, nil
	}
	w, err := podmap.Quantity(string(*text))
	if err != nil {
		return 0, fmt.Errorf("weight: %w", err)
	}
	switch {
	case w == 0:
		told.add("weights of 0, which are 1 now", name)
	case w > 1e9:
		told.add("weights beyond 1e9, which are that now", name)
		w = 1e9
	}
	return w, nil
}

// clusterQueue reads a ClusterQueue of Kueue.
func (im *Import) clusterQueue(raw []byte) error {
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			quotas
			CohortName string `json:"cohortName"` // v1beta2
			Cohort     string `json:"cohort"`     // v1beta1
			StopPolicy string `json:"stopPolicy"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	q := queue{name: o.Metadata.Name, parent: o.Spec.CohortName + o.Spec.Cohort, kind: "ClusterQueue"}
	if o.Spec.CohortName != "" && o.Spec.Cohort != "" {
		q.parent = o.Spec.CohortName
	}
	sum, err := o.Spec.gpus(q.name, &im.remarks)
	if err != nil {
		return err
	}
	if o.Spec.FairSharing != nil {
		if q.weight, err = weight(o.Spec.FairSharing.Weight, q.name, &im.remarks); err != nil {
			return err
		}
	}
	q.guarantee = sum.nominal
	switch {
	case !sum.told:
		im.remarks.add("ClusterQueues without a quota of GPUs, which have no limit now", q.name)
	case q.parent == "":
		q.limit, q.limited = sum.nominal, true
	case !sum.unlimited:
		q.limit, q.limited = sum.nominal+sum.borrow, true
	}
	if o.Spec.StopPolicy != "" && o.Spec.StopPolicy != "None" {
		im.remarks.add("ClusterQueues that are stopped (stopPolicy)", q.name)
	}
	im.queues = append(im.queues, q)
	im.named(q.parent)
	return nil
}

// named notes that there is a cohort of that name.
func (im *Import) named(cohort string) *queue {
	if cohort == "" {
		return nil
	}
	if im.cohorts == nil {
		im.cohorts = map[string]*queue{}
	}
	if im.cohorts[cohort] == nil {
		im.cohorts[cohort] = &queue{name: cohort, kind: "cohort", pool: true}
	}
	return im.cohorts[cohort]
}

// cohort reads a Cohort of Kueue.
func (im *Import) cohort(raw []byte) error {
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			quotas
			ParentName string `json:"parentName"`
			Parent     string `json:"parent"` // v1alpha1
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	q := im.named(o.Metadata.Name)
	sum, err := o.Spec.gpus(q.name, &im.remarks)
	if err != nil {
		return err
	}
	if o.Spec.FairSharing != nil {
		if q.weight, err = weight(o.Spec.FairSharing.Weight, q.name, &im.remarks); err != nil {
			return err
		}
	}
	if q.parent = o.Spec.ParentName; q.parent == "" {
		q.parent = o.Spec.Parent
	}
	q.guarantee = sum.nominal
	q.borrow, q.borrows = sum.borrow, q.parent != "" && sum.told && !sum.unlimited
	im.named(q.parent)
	return nil
}

// localQueue counts a LocalQueue: it leads to a ClusterQueue, and jobs belong to that.
func (im *Import) localQueue([]byte) error {
	im.remarks.add("LocalQueues, whose jobs belong to their ClusterQueues", "")
	return nil
}

// nornQueue reads a Queue of Norn, which says what a tenant is in so many words.
func (im *Import) nornQueue(raw []byte) error {
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			Parent     string   `json:"parent"`
			Guarantee  int64    `json:"guarantee"`
			Limit      int64    `json:"limit"`
			Weight     int64    `json:"weight"`
			Namespaces []string `json:"namespaces"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	for _, n := range []int64{o.Spec.Guarantee, o.Spec.Limit, o.Spec.Weight} {
		if n < 0 || n > clusterspec.MaxDevices {
			return fmt.Errorf("%d: guarantee, limit and weight are from 0 to %d", n, clusterspec.MaxDevices)
		}
	}
	if len(o.Spec.Namespaces) > 0 {
		im.remarks.add("namespaces that may use a queue", o.Metadata.Name)
	}
	im.queues = append(im.queues, queue{
		name: o.Metadata.Name, parent: o.Spec.Parent, kind: "Norn", weight: float64(o.Spec.Weight),
		guarantee: unit.Milli(o.Spec.Guarantee) * unit.One, limit: unit.Milli(o.Spec.Limit) * unit.One, limited: o.Spec.Limit > 0,
	})
	return nil
}

// volcanoQueue reads a Queue of Volcano: what it deserves is guaranteed, as others may use
// it and give it back; where that is not told, what is reserved for it.
func (im *Import) volcanoQueue(raw []byte) error {
	type amounts map[string]kubelist.Quantity
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			Parent     string  `json:"parent"`
			Weight     int64   `json:"weight"`
			Deserved   amounts `json:"deserved"`
			Capability amounts `json:"capability"`
			Guarantee  struct {
				Resource amounts `json:"resource"`
			} `json:"guarantee"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	q := queue{name: o.Metadata.Name, parent: o.Spec.Parent, kind: "Volcano", weight: float64(min(max(o.Spec.Weight, 0), 1e9))}
	sum := func(what string, of amounts) (gpus unit.Milli, told bool, err error) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if !podmap.IsGPU(name) && !podmap.IsSlice(name) {
				im.remarks.add("quotas of "+name, q.name)
				continue
			}
			n, err := gpusOf(name, of[name])
			if err != nil {
				return 0, false, fmt.Errorf("%s: %w", what, err)
			}
			gpus, told = gpus+n, true
		}
		return gpus, told, nil
	}
	deserved, told, err := sum("deserved", o.Spec.Deserved)
	if err != nil {
		return err
	}
	reserved, more, err := sum("guarantee", o.Spec.Guarantee.Resource)
	if err != nil {
		return err
	}
	if q.guarantee = deserved; !told {
		q.guarantee = reserved
	}
	if more && reserved > 0 {
		im.remarks.add("GPUs that are reserved even while they are idle (guarantee)", q.name)
	}
	if q.limit, q.limited, err = sum("capability", o.Spec.Capability); err != nil {
		return err
	}
	if q.parent == "root" {
		q.parent = ""
	}
	if q.name != "root" { // the cluster itself
		im.queues = append(im.queues, q)
	}
	return nil
}

// kaiQueue reads a Queue of KAI, where -1 is no bound.
func (im *Import) kaiQueue(raw []byte) error {
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			ParentQueue string `json:"parentQueue"`
			Resources   map[string]struct {
				Quota  *float64 `json:"quota"`
				Limit  *float64 `json:"limit"`
				Weight float64  `json:"overQuotaWeight"`
			} `json:"resources"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	q := queue{name: o.Metadata.Name, parent: o.Spec.ParentQueue, kind: "KAI"}
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Resources)) {
		r := o.Spec.Resources[name]
		if bounded := r.Quota != nil && *r.Quota > 0 || r.Limit != nil && *r.Limit >= 0; name != "gpu" {
			if bounded {
				im.remarks.add("quotas of "+name, q.name)
			}
			continue
		}
		if r.Quota != nil && *r.Quota < 0 {
			im.remarks.add("queues whose quota has no bound (-1), which have no guarantee now", q.name)
		}
		if r.Quota != nil && *r.Quota > 0 {
			q.guarantee = podmap.Milli(min(*r.Quota, clusterspec.MaxDevices))
		}
		if r.Limit != nil && *r.Limit >= 0 {
			q.limit, q.limited = podmap.Milli(min(*r.Limit, clusterspec.MaxDevices)), true
		}
		if r.Weight > 0 {
			q.weight = min(r.Weight, 1e9)
		}
	}
	im.queues = append(im.queues, q)
	return nil
}

// tenants makes tenants of all queues, those above before those below.
func (im *Import) tenants(s *clusterspec.Spec, told *remarks) {
	queues := slices.Clone(im.queues)
	for _, name := range slices.Sorted(maps.Keys(im.cohorts)) {
		queues = append(queues, *im.cohorts[name])
	}
	names := unique(queues, told)
	tree := arrange(queues, names, told)
	promise(tree, told)
	total := unit.Milli(s.GPUs()) * unit.One
	fit(tree, total, told)
	for _, q := range tree {
		t := clusterspec.Tenant{Name: q.name, Parent: q.parent, Weight: q.weight, Guarantee: clusterspec.Share{GPUs: q.guarantee}}
		switch {
		case q.limited && q.limit == 0:
			told.add("limits of 0 GPUs, which are no limit now", q.name)
		case q.limited && q.limit < q.guarantee:
			told.add("limits below what is guaranteed, which are raised to that", q.name)
			t.Limit.GPUs = q.guarantee
		case q.limited:
			t.Limit.GPUs = min(q.limit, unit.Milli(clusterspec.MaxDevices)*unit.One)
		}
		s.Tenants = append(s.Tenants, t)
	}
}

// unique gives each queue a name of its own, by kind and name: two systems, or a cohort and
// a ClusterQueue, may have the same name for different things.
func unique(queues []queue, told *remarks) map[[2]string]string {
	names, taken := map[[2]string]string{}, map[string]bool{}
	for _, q := range queues {
		name := q.name
		for taken[name] {
			name += " (" + q.kind + ")"
		}
		if name != q.name {
			told.add("names that something else has, too, which have the kind behind them", name)
		}
		taken[name] = true
		names[[2]string{q.kind, q.name}] = name
	}
	return names
}

// arrange puts queues below their parents. It leaves out parents that are not there, and
// those that go round in a circle.
func arrange(queues []queue, names map[[2]string]string, told *remarks) []*queue {
	byName := map[string]*queue{}
	for i := range queues {
		q := &queues[i]
		above := q.kind
		if q.kind == "ClusterQueue" {
			above = "cohort"
		}
		parent, known := names[[2]string{above, q.parent}]
		if q.parent != "" && !known {
			told.add("queues whose parent was not read, which are below the cluster now", q.name)
		}
		q.parent = parent
		q.name = names[[2]string{q.kind, q.name}]
		byName[q.name] = q
	}
	depth := map[string]int{}
	for i := range queues {
		q := &queues[i]
		seen := map[string]bool{q.name: true}
		for up := q; up.parent != ""; up = byName[up.parent] {
			if seen[up.parent] {
				told.add("queues whose parents go round in a circle, which is cut", up.name)
				up.parent = ""
				break
			}
			seen[up.parent] = true
		}
	}
	tree := make([]*queue, len(queues))
	for i := range queues {
		tree[i] = &queues[i]
		for up := tree[i]; up.parent != ""; up = byName[up.parent] {
			depth[tree[i].name]++
		}
	}
	slices.SortStableFunc(tree, func(a, b *queue) int {
		if d := depth[a.name] - depth[b.name]; d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	return tree
}

// promise gives cohorts with GPUs of their own the guarantees of those below them, too,
// and cohorts that may borrow only so much their limits.
func promise(tree []*queue, told *remarks) {
	sums := map[string]unit.Milli{}
	for i := len(tree) - 1; i >= 0; i-- { // those below come last
		q := tree[i]
		all := max(q.guarantee, sums[q.name])
		if q.pool {
			all = q.guarantee + sums[q.name]
			if q.guarantee > 0 {
				q.guarantee = all
			}
		} else if q.guarantee > 0 && q.guarantee < sums[q.name] {
			told.add("guarantees below the sum of those beneath them, which are raised to that", q.name)
			q.guarantee = sums[q.name]
		}
		if q.borrows {
			q.limit, q.limited = all+q.borrow, true
		}
		sums[q.parent] += all
	}
}

// fit lowers guarantees that the cluster does not have, all in the same proportion.
func fit(tree []*queue, total unit.Milli, told *remarks) {
	sums := map[string]unit.Milli{}
	for i := len(tree) - 1; i >= 0; i-- {
		sums[tree[i].parent] += max(tree[i].guarantee, sums[tree[i].name])
	}
	all := sums[""]
	if all <= total {
		return
	}
	told.add(fmt.Sprintf("guarantees of more GPUs (%v) than the nodes have (%v), which are lowered in proportion", all, total), "")
	for _, q := range tree {
		q.guarantee = unit.Milli(float64(q.guarantee)/float64(all)*float64(total)) / unit.One * unit.One
	}
}
