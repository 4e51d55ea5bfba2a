"""What live exploration works on: a task's folder, and the evaluator that scores what agents make of it."""
