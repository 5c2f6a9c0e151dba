"""Readers of annotations in foreign formats (COCO JSON, Pascal VOC, CityPersons, YOLO, CVAT, Labelme, Roboflow), and the packing of what they read."""
