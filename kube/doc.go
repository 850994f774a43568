// Package kube is the world of a Kubernetes cluster: the policies of Norn decide for
// real pods.
//
// Nouns:
//   - An owner is the object that a user made: a batch/v1 Job, a pod, or the pods of a
//     gang, which belong together by a label.
//   - A sight is what the API shows of one owner and its pods at a moment.
//   - An entry is a job that has not ended, with its seats.
//   - A seat is a place for one pod on a node, as the policy has given it to the job.
//   - A run is one launch of a job, from a start to an end or a preemption.
//
// The API is the truth. All that is known of a job stands on objects of the cluster. It is
// written there with a write that has to happen anyway. The binding of a pod says where
// it is to be, and the patch that resumes or suspends a Job what has become of that. The
// log of events is only the history, and may be lost.
//
// The package looks at what there is and not at what has changed: an informer only says
// that a job should be looked at. It compares what it finds with what was decided, and
// acts upon the difference. So a lost, late or repeated message changes nothing.
//
// Sources: the API of Kubernetes 1.36 (k8s.io/api v0.36.3) and its documentation of Jobs,
// bindings, leases and taints.
package kube
