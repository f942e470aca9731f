"""What to submit so that a study is searched on a cluster: by Slurm, by KubeRay, or over ssh."""
