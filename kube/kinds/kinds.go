// Package kinds knows the objects that make pods, other than batch/v1 Jobs: where each
// has its pod templates and how many pods it makes of them, how it is suspended, and how
// it says that it has ended. It is pure: objects come as maps, as a dynamic client has
// them, so that no package of their authors is needed.
//
// Sources: the API types of JobSet v0.10, Kubeflow Trainer v2.2, Kubeflow Training v1.9,
// MPI operator v0.6, KubeRay v1.5, AppWrapper v1.1, LeaderWorkerSet v0.8, Volcano v1.12,
// and of Kubernetes 1.36 and 1.37 (PodGroup).
//
// Nouns:
//   - A Kind is a row of the table: a kind of object.
//   - A Workload is an object of a Kind, as Norn sees it.
//   - A Group is a PodGroup.
package kinds

import (
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/kube/convert"
)

// Kind is a kind of object that makes pods.
type Kind struct {
	Group, Version, Name string
	Plural               string // as in the URL of the API

	// Child is the Kind that an object of this one makes under its own name, and that has
	// the pod templates; empty: the object has them itself.
	Child string
	// Gangs tells that the pods are several equal gangs (Workload.Gangs), each of which
	// begins by itself.
	Gangs bool

	suspend  []string // path of the field; nil: it cannot be suspended
	deadline []string // path of activeDeadlineSeconds; nil: it has none
	manager  string   // what managedBy says when its own controller manages it
	managed  []string // path of managedBy; nil: it has none
	sets     func(object) ([]part, error)
	end      end
}

// part is equal pods of an object.
type part struct {
	role     string
	count    int32
	template object
}

// end is how an object says where it stands.
type end struct {
	complete, failed, suspended string // types of conditions; empty: there is none
	phase                       []string
	phases                      map[string]convert.JobPhase // by the text at that path
	asleep                      string                      // the phase of one that is suspended
}

// String is the kind as users write it: JobSet.jobset.x-k8s.io.
func (k *Kind) String() string { return k.Name + "." + k.Group }

// APIVersion is the group and version as objects have it.
func (k *Kind) APIVersion() string { return k.Group + "/" + k.Version }

// Suspends tells whether objects of the kind can be suspended. Pods of the others are
// bound as they come.
func (k *Kind) Suspends() bool { return k.suspend != nil }

// Patch is the part of a merge patch that suspends an object, or resumes it; nil where the
// kind cannot be suspended.
func (k *Kind) Patch(suspend bool) map[string]any {
	if k.suspend == nil {
		return nil
	}
	out := map[string]any{k.suspend[len(k.suspend)-1]: suspend}
	for _, name := range slices.Backward(k.suspend[:len(k.suspend)-1]) {
		out = map[string]any{name: out}
	}
	return out
}

// Suspended tells whether the spec of an object says that it is suspended.
func (k *Kind) Suspended(of map[string]any) bool {
	v, _ := object(of).at(k.suspend...).(bool)
	return v
}

// State is where an object stands.
func (k *Kind) State(of map[string]any) convert.JobState { return k.end.state(of) }

// All is the table of kinds, in the order of their names.
func All() []Kind {
	kubeflow := end{complete: "Succeeded", failed: "Failed", suspended: "Suspended"}
	all := []Kind{
		{
			Group: "workload.codeflare.dev", Version: "v1beta2", Name: "AppWrapper", Plural: "appwrappers",
			suspend: []string{"spec", "suspend"}, managed: []string{"spec", "managedBy"}, manager: "workload.codeflare.dev/appwrapper", sets: wrapped,
			end: end{phase: []string{"status", "phase"}, asleep: "Suspended", phases: map[string]convert.JobPhase{
				"Succeeded": convert.JobComplete, "Completed": convert.JobComplete, "Failed": convert.JobFailed, "Terminating": convert.JobEnding,
			}},
		},
		{
			Group: "jobset.x-k8s.io", Version: "v1alpha2", Name: "JobSet", Plural: "jobsets",
			suspend: []string{"spec", "suspend"}, managed: []string{"spec", "managedBy"}, manager: "jobset.sigs.k8s.io/jobset-controller", sets: replicatedJobs,
			end: end{complete: "Completed", failed: "Failed", suspended: "Suspended"},
		},
		{
			Group: "leaderworkerset.x-k8s.io", Version: "v1", Name: "LeaderWorkerSet", Plural: "leaderworkersets",
			Gangs: true, sets: leaderAndWorkers,
		},
		{
			Group: "kubeflow.org", Version: "v2beta1", Name: "MPIJob", Plural: "mpijobs",
			suspend: []string{"spec", "runPolicy", "suspend"}, deadline: []string{"spec", "runPolicy", "activeDeadlineSeconds"},
			managed: []string{"spec", "runPolicy", "managedBy"}, manager: "kubeflow.org/mpi-operator", sets: replicas("mpiReplicaSpecs"), end: kubeflow,
		},
		{
			Group: "ray.io", Version: "v1", Name: "RayCluster", Plural: "rayclusters",
			suspend: []string{"spec", "suspend"}, managed: []string{"spec", "managedBy"}, manager: "ray.io/kuberay-operator", sets: rayGroups("spec"),
			end: end{suspended: "RayClusterSuspended", phase: []string{"status", "state"}, asleep: "suspended"},
		},
		{
			Group: "ray.io", Version: "v1", Name: "RayJob", Plural: "rayjobs", deadline: []string{"spec", "activeDeadlineSeconds"},
			suspend: []string{"spec", "suspend"}, managed: []string{"spec", "managedBy"}, manager: "ray.io/kuberay-operator", sets: rayGroups("spec", "rayClusterSpec"),
			end: end{phase: []string{"status", "jobDeploymentStatus"}, asleep: "Suspended", phases: map[string]convert.JobPhase{
				"Complete": convert.JobComplete, "Failed": convert.JobFailed,
			}},
		},
		{
			Group: "trainer.kubeflow.org", Version: "v1alpha1", Name: "TrainJob", Plural: "trainjobs", Child: "JobSet",
			suspend: []string{"spec", "suspend"}, deadline: []string{"spec", "activeDeadlineSeconds"},
			managed: []string{"spec", "managedBy"}, manager: "trainer.kubeflow.org/trainjob-controller",
			end: end{complete: "Complete", failed: "Failed", suspended: "Suspended"},
		},
		{
			Group: "batch.volcano.sh", Version: "v1alpha1", Name: "Job", Plural: "jobs", sets: volcanoTasks,
			end: end{phase: []string{"status", "state", "phase"}, phases: map[string]convert.JobPhase{
				"Completing": convert.JobEnding, "Aborting": convert.JobEnding, "Terminating": convert.JobEnding, "Completed": convert.JobComplete,
				"Failed": convert.JobFailed, "Aborted": convert.JobFailed, "Terminated": convert.JobFailed,
			}},
		},
	}
	for name, field := range map[string]string{
		"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "XGBoostJob": "xgbReplicaSpecs", "PaddleJob": "paddleReplicaSpecs", "JAXJob": "jaxReplicaSpecs",
		"MPIJob": "mpiReplicaSpecs",
	} {
		all = append(all, Kind{
			Group: "kubeflow.org", Version: "v1", Name: name, Plural: strings.ToLower(name) + "s",
			suspend: []string{"spec", "runPolicy", "suspend"}, deadline: []string{"spec", "runPolicy", "activeDeadlineSeconds"},
			managed: []string{"spec", "runPolicy", "managedBy"}, manager: "kubeflow.org/training-operator", sets: replicas(field), end: kubeflow,
		})
	}
	slices.SortFunc(all, func(a, b Kind) int { return strings.Compare(a.Name+" "+a.APIVersion(), b.Name+" "+b.APIVersion()) })
	return all
}

// Of finds a kind by the apiVersion and kind of an object. Another version of the same
// group is not the same kind.
func Of(apiVersion, kind string) (*Kind, bool) {
	for _, k := range All() {
		if k.Name == kind && k.APIVersion() == apiVersion {
			return &k, true
		}
	}
	return nil, false
}
