// Package names has the names that Norn gives to things in a Kubernetes cluster: its API
// group, and the labels and annotations that users and Norn write on objects.
//
// Users write labels and annotations of the first group on their objects. Norn writes
// those of the second on a write that it makes anyway, so that a scheduler that starts
// with nothing but the API knows what the one before it decided.
package names

// Group is the API group of Norn, and the domain of its labels and annotations.
const Group = "norn-scheduler.github.io"

// Scheduler is what spec.schedulerName of a pod says that Norn is to bind.
const Scheduler = "norn"

// Lease is the name of the Lease by which one of several Norns leads.
const Lease = "norn"

// Queues and QueueVersion are the resource and the version of the objects of kind Queue.
const (
	Queues       = "queues"
	QueueVersion = "v1alpha1"
)

// Certificate is an annotation of the Lease: the certificate of the API of the Norn that
// leads, in PEM.
const Certificate = Group + "/certificate"

// Audience is what tokens are for that are sent to the API of Norn.
const Audience = Group

// Names that users write.
const (
	// Queue is a label of an owner (such as a Job) that Norn admits: the name of the
	// tenant that it belongs to.
	Queue = Group + "/queue"
	// Gang is a label of pods that start together or not at all: the name of their gang,
	// within their namespace.
	Gang = Group + "/gang"
	// GangSize is an annotation or label of pods of a gang: how many they are.
	GangSize = Group + "/gang-size"
	// Estimate is an annotation: the expected run time, as a Go duration or in seconds.
	Estimate = Group + "/estimate"
	// Stop is a label: how the job may be stopped (checkpoint, restart, never,
	// last-save).
	Stop = Group + "/stop"
	// Resize is an annotation MIN-MAX: the parallelism between which Norn may choose.
	Resize = Group + "/resize"
	// Within is an annotation: the level of the topology of which all pods are in one
	// place, as in "rack" or "rack, preferred".
	Within = Group + "/within"
	// Reclaimed is an annotation of nodes that their owner takes back: by when the jobs of
	// Norn there have left, as in RFC 3339, "now" or "gracefully", and behind a space why.
	Reclaimed = Group + "/reclaimed"
	// User is an annotation: whom the job belongs to.
	User = Group + "/user"
)

// Names that Norn writes.
const (
	// Asked is an annotation of Jobs that may be resized: the parallelism for which their
	// users asked, as Norn changes that.
	Asked = Group + "/asked"
	// Run is an annotation of pods and owners: the number of the run, from 1.
	Run = Group + "/run"
	// Devices is an annotation of pods: the devices that they were given.
	Devices = Group + "/devices"
	// Plan is an annotation of owners, and of the first pod of a bare gang: where each
	// rank of the run goes.
	Plan = Group + "/plan"
	// Apart is an annotation of pods that say that they belong to a gang, and that Norn
	// schedules each by itself: those that came when their gang ran already, and those whose
	// PodGroup says that they need not begin together.
	Apart = Group + "/apart"
	// Record is an annotation of owners: what Norn has to remember of the job (attained
	// service, progress, failures, notes of the policy).
	Record = Group + "/record"
	// Gate is the scheduling gate of pods that kube-scheduler binds once Norn has chosen
	// their node.
	Gate = Group + "/plan"
)
